package pgerr

import (
	"errors"
	"io"
	"net"
	"os"

	"github.com/jackc/pgx/v5/pgconn"
)

// brokenConnection reports whether err is the end of a connection rather than
// an answer to a statement.
func brokenConnection(err error) bool {
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.As(err, &netErr)
}
