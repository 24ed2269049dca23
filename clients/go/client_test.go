package ringfence_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	ringfence "github.com/ringfence/ringfence/clients/go"
)

// connect opens a session with the daemon that test/daemon/go.test.ts started.
func connect(t *testing.T, options ringfence.Options) *ringfence.Client {
	if os.Getenv("RINGFENCE_SOCKET") == "" {
		t.Skip("no daemon: run by test/daemon/go.test.ts")
	}
	client, err := ringfence.Connect(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestCall(t *testing.T) {
	rf := connect(t, ringfence.Options{})
	input := map[string]any{"path": "notes.md", "content": "by Go ä€😀\n"}
	if result, err := rf.Call(context.Background(), "file_write", input, nil); err != nil || !result.Success {
		t.Fatal(result, err)
	}
	result, err := rf.Call(context.Background(), "file_read", map[string]any{"path": "notes.md"}, nil)
	if err != nil || !result.Success {
		t.Fatal(result, err)
	}
	if data := result.Data.(map[string]any); data["content"] != "by Go ä€😀\n" {
		t.Error(data)
	}
}

func TestFailedCall(t *testing.T) {
	rf := connect(t, ringfence.Options{})
	result, err := rf.Call(context.Background(), "file_read", map[string]any{"path": "../outside"}, nil)
	if err != nil || result.Success || result.Error["code"] != "ACCESS_DENIED" {
		t.Error(result, err)
	}
}

func TestRefusedRequest(t *testing.T) {
	rf := connect(t, ringfence.Options{})
	_, err := rf.Request(context.Background(), "no.such", map[string]any{})
	var refusal *ringfence.RemoteError
	if !errors.As(err, &refusal) || refusal.Code != -32601 {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	begun := make(chan string, 8)
	rf := connect(t, ringfence.Options{OnNotification: func(method string, params map[string]any) {
		if state, _ := params["state"].(map[string]any); state["status"] == "in-progress" {
			begun <- params["callId"].(string)
		}
	}})
	ctx, cancel := context.WithCancel(context.Background())
	id := make(chan string, 1)
	go func() {
		id <- <-begun
		cancel()
	}()
	options := map[string]any{"progress": true}
	result, err := rf.Call(ctx, "terminal_execute", map[string]any{"command": "sleep 600"}, options)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(result, err)
	}
	callID := <-id
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		record, err := rf.Request(context.Background(), "calls.get", map[string]any{"callId": callID})
		if err != nil {
			t.Fatal(err)
		}
		status := record.(map[string]any)["state"].(map[string]any)["status"]
		if status == "cancelled" {
			return
		}
		if time.Now().After(until) {
			t.Fatal("the command still is ", status)
		}
	}
}
