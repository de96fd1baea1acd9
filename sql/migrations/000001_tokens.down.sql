DROP FUNCTION pgcoord.require_transaction(text);
DROP TABLE pgcoord.operations;
DROP FUNCTION pgcoord.next_fencing_token();
DROP TABLE pgcoord.cluster;
DROP SEQUENCE pgcoord.fencing_token_seq;
-- RESTRICT: what others put into the schema stays theirs.
DROP SCHEMA pgcoord RESTRICT;
