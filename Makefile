# DSN is the database that the migrate targets work on: a direct connection.
DSN ?=
MIGRATE = $$(bash .ci/tools migrate) -path sql/migrations -database \
	"$$(printf '%s' '$(DSN)' | sed -e 's|^postgres[a-z]*:|pgx5:|' -e '/?/!s|$$|?|' -e 's|$$|\&x-migrations-table=pgcoord_schema_migrations|')"

.DEFAULT_GOAL := help
.PHONY: help test race lint fmt bench demo integration migrate-up migrate-down migrate-version ci

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: ## Run the tests, on a PostgreSQL of their own
	go test ./...

race: ## Run the tests under the race detector
	go test -race ./...

lint: ## Check formatting, vet, lint, import rules and what a service links
	bash .ci/run format vet lint tidy consumer

fmt: ## Format the Go files
	git ls-files -co --exclude-standard '*.go' | xargs "$$(bash .ci/tools gofumpt)" -w

bench: ## Run the benchmarks
	go test -run '^$$' -bench . ./bench/...

demo: ## Show double execution, and pgcoord preventing it
	go run ./cmd/pgcoord demo

integration: ## Run the tests that need Docker and PgBouncer
	bash .ci/run integration

migrate-up: dsn ## Bring the schema of DSN=postgres://... up to date
	@$(MIGRATE) up

migrate-down: dsn ## Take the schema of DSN away, with all that is in it
	@$(MIGRATE) down

migrate-version: dsn ## Print the schema's version in DSN
	@$(MIGRATE) version

ci: ## Run all that CI runs (installs Debian packages, as root)
	bash .ci/run

.PHONY: dsn
dsn:
	@[ -n '$(DSN)' ] || { echo 'set DSN=postgres://user@host:port/database' >&2; exit 2; }
