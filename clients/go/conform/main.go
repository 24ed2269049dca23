// The Go client as the program that the conformance kit tests; docs/how-to/conformance.md says what it is told.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	ringfence "github.com/ringfence/ringfence/clients/go"
)

type command struct {
	Do, Name, Tool string
	Input          map[string]any
	ResumeMs       int64
}

var output sync.Mutex

func say(line map[string]any) {
	text, err := json.Marshal(plain(line))
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

// plain replaces bytes by {"$bytes": base64}.
func plain(value any) any {
	switch it := value.(type) {
	case []byte:
		return map[string]any{"$bytes": base64.StdEncoding.EncodeToString(it)}
	case []any:
		list := make([]any, len(it))
		for i := range it {
			list[i] = plain(it[i])
		}
		return list
	case map[string]any:
		fields := map[string]any{}
		for key := range it {
			fields[key] = plain(it[key])
		}
		return fields
	}
	return value
}

func failed(err error) map[string]any {
	told := map[string]any{"message": err.Error()}
	var refusal *ringfence.RemoteError
	if errors.As(err, &refusal) {
		told["code"] = refusal.Code
	}
	return told
}

func call(ctx context.Context, client *ringfence.Client, it command) {
	result, err := client.Call(ctx, it.Tool, it.Input, nil)
	if err != nil {
		say(map[string]any{"name": it.Name, "failed": failed(err)})
		return
	}
	told := map[string]any{
		"callId": result.CallID, "tool": result.Tool, "success": result.Success, "metadata": result.Metadata,
	}
	if result.Success {
		told["data"] = result.Data
	} else {
		told["error"] = result.Error
	}
	say(map[string]any{"name": it.Name, "result": told})
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	var client *ringfence.Client
	cancels := map[string]context.CancelFunc{}
	for lines.Scan() {
		var it command
		if err := json.Unmarshal(lines.Bytes(), &it); err != nil {
			panic(err)
		}
		switch it.Do {
		case "connect":
			made, err := ringfence.Connect(context.Background(), ringfence.Options{
				Resume: time.Duration(it.ResumeMs) * time.Millisecond,
			})
			if err != nil {
				say(map[string]any{"name": "connect", "failed": failed(err)})
				continue
			}
			client = made
			say(map[string]any{"name": "connect", "connected": true})
		case "call":
			ctx, cancel := context.WithCancel(context.Background())
			cancels[it.Name] = cancel
			go call(ctx, client, it)
		case "cancel":
			cancels[it.Name]()
		case "close":
			if client != nil {
				client.Close()
			}
			return
		}
	}
}
