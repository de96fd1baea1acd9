package statemachine

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// place is where a statement runs. Of a DB that is neither own nor inside, nothing
// is known.
type place struct {
	db   DB
	pool *pgxpool.Pool // set: on any connection of it
	conn *pgx.Conn     // set: on this one, which is in no transaction
	tx   pgx.Tx        // set: in this transaction of the caller

	own    bool // the statement is a transaction of its own: on pool or conn
	inside bool // it is part of a transaction of the caller
}

// placeOf tells pools and idle connections from transactions.
func placeOf(db DB) (place, error) {
	p := place{db: db}
	switch d := db.(type) {
	case nil:
		return p, errors.New("db is nil")
	case *pgxpool.Pool:
		if d == nil {
			return p, errors.New("db is a nil pool")
		}
		p.pool, p.own = d, true
	case *pgxpool.Conn:
		if d == nil {
			return p, errors.New("db is a nil connection")
		}
		p.setConn(d.Conn())
	case *pgx.Conn:
		if d == nil {
			return p, errors.New("db is a nil connection")
		}
		p.setConn(d)
	case pgx.Tx:
		p.tx, p.inside = d, true
	}
	return p, nil
}

// setConn looks whether conn is in a transaction that was begun by hand.
func (p *place) setConn(conn *pgx.Conn) {
	const idle = 'I'
	p.conn = conn
	p.own = conn.PgConn().TxStatus() == idle
	p.inside = !p.own
}
