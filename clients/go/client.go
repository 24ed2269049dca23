// Package ringfence calls tools of a Ringfence daemon.
//
//	rf, err := ringfence.Connect(ctx, ringfence.Options{Hello: map[string]any{"workspace": "/path/to/project"}})
//	defer rf.Close()
//	result, err := rf.Call(ctx, "file_read", map[string]any{"path": "README.md"}, nil)
//
// https://github.com/ringfence/ringfence/blob/main/docs/protocol.md
package ringfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	forbidden  = -32004
	overloaded = -32006
	// Pause between attempts to reach a daemon that is gone.
	retry = 100 * time.Millisecond
)

// once are methods that are not repeated where it is unknown whether the daemon served them.
var once = map[string]bool{"tools.batch": true, "calls.undo": true, "calls.commit": true, "approvals.resolve": true,
	"events.subscribe": true, "policy.reload": true, "shutdown": true}

// Options say which daemon to connect to, and how.
type Options struct {
	// Socket of the daemon; found as the command line finds it when empty.
	Socket string
	// Hello has further members of hello: workspace, role, token, policy, mode.
	Hello map[string]any
	// Resume is how long session and calls wait for this client when the connection breaks; it then connects again by itself.
	Resume time.Duration
	// OnNotification receives what the daemon tells, such as call.output. Nothing else is read meanwhile.
	OnNotification func(method string, params map[string]any)
}

// Result is what came of a call: Data where Success, else Error, whose members docs/protocol.md lists.
type Result struct {
	CallID, Tool    string
	Success         bool
	Data            any
	Error, Metadata map[string]any
}

// Client is a session with a daemon. Its methods may be used by several goroutines.
type Client struct {
	options Options
	opening sync.Mutex // One connection is made at a time.
	mu      sync.Mutex
	line    *line
	closed  bool
}

// Connect connects and says hello. It returns RemoteError where the daemon refuses.
func Connect(ctx context.Context, options Options) (*Client, error) {
	if options.Socket == "" {
		options.Socket = socket()
	}
	client := &Client{options: options}
	_, err := client.open(ctx)
	return client, err
}

// Call runs a tool. A call that fails is a Result without Success, and no error. Where ctx ends, the call is cancelled.
// Options are those of CallOptions in docs/protocol.md, or nil.
func (c *Client) Call(ctx context.Context, tool string, input, options map[string]any) (*Result, error) {
	given := map[string]any{"callId": newID()}
	for name, value := range options {
		given[name] = value
	}
	params := map[string]any{"tool": tool, "input": input, "options": given}
	wire, err := c.Request(ctx, "tools.call", params)
	if line, _ := c.current(); ctx.Err() != nil && line != nil {
		go line.ask(context.Background(), "calls.cancel", map[string]any{"callId": given["callId"]})
	}
	if err != nil {
		return nil, err
	}
	fields, _ := wire.(map[string]any)
	result := &Result{Data: fields["data"]}
	result.CallID, _ = fields["callId"].(string)
	result.Tool, _ = fields["tool"].(string)
	result.Success, _ = fields["success"].(bool)
	result.Error, _ = fields["error"].(map[string]any)
	result.Metadata, _ = fields["metadata"].(map[string]any)
	return result, nil
}

// Request sends any request of the protocol. One that was cut off is repeated only where that has no second effect.
func (c *Client) Request(ctx context.Context, method string, params map[string]any) (any, error) {
	for {
		line, err := c.open(ctx)
		if err != nil {
			return nil, err
		}
		result, err := line.ask(ctx, method, params)
		if movedOn(err) || (err == nil && method == "tools.call" && notBegun(params, result)) {
			line.leave()
			continue
		}
		_, closed := c.current()
		if !errors.Is(err, ErrDisconnected) || c.options.Resume == 0 || once[method] || closed {
			return result, err
		}
		again, openErr := c.open(ctx)
		if openErr != nil {
			return nil, openErr
		}
		// In another session the id of the call is unused, so that the call would run twice.
		if again.session["id"] != line.session["id"] && !isDetached(params) {
			return nil, err
		}
	}
}

// Close ends the session; calls that are not detached end with it.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.line != nil {
		c.line.conn.Close()
	}
}

func (c *Client) current() (*line, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line, c.closed
}

// open returns a line on which something can begin. Where there is none it makes one, and resumes the session of the last
// for as long as that waits.
func (c *Client) open(ctx context.Context) (*line, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	last, closed := c.current()
	if closed {
		return nil, errors.New("ringfence: this client is closed")
	}
	if last != nil && last.takesNew() {
		return last, nil
	}
	if last == nil || c.options.Resume == 0 {
		return c.connect(ctx, nil)
	}
	session := map[string]any{"sessionId": last.session["id"], "secret": last.session["secret"]}
	until := time.Now().Add(c.options.Resume)
	for {
		made, err := c.connect(ctx, session)
		var refusal *RemoteError
		if errors.As(err, &refusal) && refusal.Code == forbidden {
			return c.connect(ctx, nil)
		}
		isFinal := err == nil || (refusal != nil && refusal.Code != overloaded)
		if _, closed := c.current(); isFinal || closed || time.Now().After(until) {
			return made, err
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// connect makes a line; again where a daemon hands over, since the next connection is to the new one.
func (c *Client) connect(ctx context.Context, resume map[string]any) (*line, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.options.Socket)
	if err != nil {
		return nil, err
	}
	made := newLine(conn, c.hear)
	params := map[string]any{"protocol": 1, "client": map[string]any{"name": "ringfence-go", "version": "0.1.0"}}
	for name, value := range c.options.Hello {
		params[name] = value
	}
	if c.options.Resume > 0 {
		params["resumeMs"] = c.options.Resume.Milliseconds()
	}
	if resume != nil {
		params["resume"] = resume
	}
	wire, err := made.ask(ctx, "hello", params)
	if err != nil {
		conn.Close()
		if movedOn(err) {
			return c.connect(ctx, resume)
		}
		return nil, err
	}
	hello, _ := wire.(map[string]any)
	limits, _ := hello["limits"].(map[string]any)
	if bytesMax, isNumber := limits["frameBytesMax"].(int64); isNumber {
		made.frameMax = int(bytesMax)
	}
	made.session, _ = hello["session"].(map[string]any)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line = made
	return made, nil
}

func (c *Client) hear(method string, params map[string]any) {
	if line, _ := c.current(); line != nil && method == "session.closing" && params["reason"] == "upgrade" {
		line.leave()
	}
	if c.options.OnNotification != nil {
		c.options.OnNotification(method, params)
	}
}

// movedOn tells whether a daemon that hands over refused the request before doing anything.
func movedOn(err error) bool {
	var refusal *RemoteError
	return errors.As(err, &refusal) && refusal.Data["reason"] == "upgrade"
}

// notBegun tells whether a call was ended before it began, since its daemon hands over. A detached call keeps that result.
func notBegun(params map[string]any, result any) bool {
	fields, _ := result.(map[string]any)
	failure, _ := fields["error"].(map[string]any)
	details, _ := failure["details"].(map[string]any)
	isMoved := failure["code"] == "SHUTTING_DOWN" && details["reason"] == "upgrade" && details["begun"] == false
	return isMoved && !isDetached(params)
}

func isDetached(params map[string]any) bool {
	options, _ := params["options"].(map[string]any)
	return options["detached"] == true
}

// socket finds the daemon's socket as the command line does.
func socket() string {
	if path := os.Getenv("RINGFENCE_SOCKET"); path != "" {
		return path
	}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" {
		return filepath.Join(runtime, "ringfence", "ringfence.sock")
	}
	return filepath.Join(os.Getenv("HOME"), ".local", "state", "ringfence", "ringfence.sock")
}

func newID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // The system has no source of randomness.
	}
	return fmt.Sprintf("%x", id)
}
