package ringfence

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// ErrDisconnected is returned for a request whose connection ended before its answer.
var ErrDisconnected = errors.New("ringfence: the connection to the daemon ended before it answered")

// Largest message that the daemon sends, and takes unless its hello says otherwise.
const frameBytesMax = 16 << 20

// RemoteError is the daemon's refusal of a request; docs/errors.md lists the codes.
type RemoteError struct {
	Code    int
	Message string
	Data    map[string]any
}

func (e *RemoteError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// line is one connection: frames, and answers that are told apart by their ids.
type line struct {
	conn     net.Conn
	hear     func(method string, params map[string]any)
	out      chan []byte
	closed   chan struct{}
	lastID   atomic.Int64
	frameMax int            // The largest message that the daemon takes.
	session  map[string]any // The session of hello.
	mu       sync.Mutex
	waiting  map[int64]chan map[string]any // One message each: the answer.
	isLeft   bool
}

func newLine(conn net.Conn, hear func(string, map[string]any)) *line {
	it := &line{conn: conn, hear: hear, out: make(chan []byte), closed: make(chan struct{}),
		frameMax: frameBytesMax, waiting: map[int64]chan map[string]any{}}
	go it.write()
	go it.read()
	return it
}

// ask sends a request and waits for its answer. It returns RemoteError for a refusal, and ErrDisconnected.
func (l *line) ask(ctx context.Context, method string, params map[string]any) (any, error) {
	id, came := l.lastID.Add(1), make(chan map[string]any, 1)
	frame, err := pack(make([]byte, 4, 512), map[string]any{"id": id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	length := len(frame) - 4
	if length > l.frameMax {
		return nil, fmt.Errorf("ringfence: a message of %d bytes; the daemon takes %d", length, l.frameMax)
	}
	binary.BigEndian.PutUint32(frame, uint32(length))
	l.mu.Lock()
	l.waiting[id] = came
	l.mu.Unlock()
	defer l.forget(id)
	for out := l.out; ; {
		select {
		case out <- frame:
			out = nil // Sent once.
		case message := <-came:
			return answerOf(message)
		case <-l.closed:
			if len(came) == 0 {
				return nil, ErrDisconnected
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// forget ends a wait, and a line that was left when nothing waits there any more.
func (l *line) forget(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
	if l.isLeft && len(l.waiting) == 0 {
		l.conn.Close()
	}
}

// leave says that nothing begins here any more: the daemon hands over, or the connection has ended.
func (l *line) leave() {
	l.mu.Lock()
	l.isLeft = true
	l.mu.Unlock()
	l.forget(0)
}

// takesNew tells whether something can begin here.
func (l *line) takesNew() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.isLeft
}

func (l *line) write() {
	for {
		select {
		case frame := <-l.out:
			l.conn.Write(frame) // A failure is seen by the reader.
		case <-l.closed:
			return
		}
	}
}

// read takes messages until the connection ends, or brings what is none.
func (l *line) read() {
	defer close(l.closed)
	defer l.conn.Close()
	defer l.leave()
	var header [4]byte
	for from := bufio.NewReader(l.conn); ; {
		if _, err := io.ReadFull(from, header[:]); err != nil {
			return
		}
		length := binary.BigEndian.Uint32(header[:])
		if length > frameBytesMax {
			return
		}
		payload := make([]byte, length)
		if _, err := io.ReadFull(from, payload); err != nil {
			return
		}
		value, err := unpack(payload)
		message, isMap := value.(map[string]any)
		if err != nil || !isMap {
			return
		}
		if method, isText := message["method"].(string); isText {
			params, _ := message["params"].(map[string]any)
			l.hear(method, params)
			continue
		}
		id, _ := message["id"].(int64)
		l.mu.Lock()
		if came := l.waiting[id]; came != nil {
			came <- message
			delete(l.waiting, id)
		}
		l.mu.Unlock()
	}
}

func answerOf(message map[string]any) (any, error) {
	refusal, isError := message["error"].(map[string]any)
	if !isError {
		return message["result"], nil
	}
	code, _ := refusal["code"].(int64)
	text, _ := refusal["message"].(string)
	data, _ := refusal["data"].(map[string]any)
	return nil, &RemoteError{Code: int(code), Message: text, Data: data}
}
