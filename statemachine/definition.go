package statemachine

// State is the name of a state, as it stands in the state column.
type State string

// Transition is a declared edge of the graph.
type Transition struct {
	From, To State
}

// Definition declares a machine over a table of the application. Define checks it.
type Definition struct {
	// Name tells machines of one database apart in pgcoord.attempts and
	// pgcoord.transitions. 1 to 128 bytes. Default: Table and State column, as
	// "public.orders.status".
	Name string
	// Table is the application's table, with its schema: "orders" or "shop.orders".
	// Parts that are not plain lower-case identifiers are quoted as in SQL:
	// `shop."Order Items"`. Required.
	Table string
	// Key are the columns of the key, which a primary key or unique constraint must
	// cover: of type text, varchar, uuid, smallint, integer or bigint. Default: "id".
	Key []string
	// StateColumn holds the state: text, varchar, or an enum. Default: "status".
	StateColumn string
	// TokenColumn holds the fencing token of the newest claim: bigint NOT NULL.
	// "-" declares a table that has none: Transition works, claims do not.
	// Default: "fencing_token".
	TokenColumn string
	// Initial are the states in which rows are born. Required.
	Initial []State
	// Transitions are all edges. A state without one that leaves it is final.
	// Required.
	Transitions []Transition
	// Final declares final states besides: Define then checks that no edge leaves
	// them, and that every state without a leaving edge is one. Optional.
	Final []State
}
