package ringfence

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"
)

// The daemon takes messages of at most this depth.
const depthMax = 64

// pack writes a value as plain MessagePack. Lengths always have 32 bits and integers 64, which every reader takes.
func pack(to []byte, value any) (_ []byte, err error) {
	header := func(kind byte, length int) []byte {
		return binary.BigEndian.AppendUint32(append(to, kind), uint32(length))
	}
	it := reflect.ValueOf(value)
	switch it.Kind() {
	case reflect.Invalid:
		return append(to, 0xc0), nil
	case reflect.Bool:
		if it.Bool() {
			return append(to, 0xc3), nil
		}
		return append(to, 0xc2), nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return binary.BigEndian.AppendUint64(append(to, 0xd3), uint64(it.Int())), nil
	case reflect.Float32, reflect.Float64:
		return binary.BigEndian.AppendUint64(append(to, 0xcb), math.Float64bits(it.Float())), nil
	case reflect.String:
		return append(header(0xdb, it.Len()), it.String()...), nil
	case reflect.Slice:
		if it.Type().Elem().Kind() == reflect.Uint8 {
			return append(header(0xc6, it.Len()), it.Bytes()...), nil
		}
		to = header(0xdd, it.Len())
		for i := 0; i < it.Len() && err == nil; i++ {
			to, err = pack(to, it.Index(i).Interface())
		}
		return to, err
	case reflect.Map:
		to = header(0xdf, it.Len())
		for each := it.MapRange(); each.Next() && err == nil; {
			if to, err = pack(to, each.Key().String()); err == nil {
				to, err = pack(to, each.Value().Interface())
			}
		}
		return to, err
	}
	return nil, fmt.Errorf("ringfence: a %T can't be part of a message", value)
}

// unpack reads one message: nil, bool, int64, float64, string, []byte, []any and map[string]any.
func unpack(message []byte) (any, error) {
	r := reader{rest: message}
	value := r.value(0)
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes follow the message", len(r.rest))
	}
	return value, r.err
}

// reader reads up to the first error, and zeros after it.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(format string, values ...any) {
	r.rest, r.err = nil, fmt.Errorf("ringfence: not an acceptable message: "+format, values...)
}

func (r *reader) take(count uint64) []byte {
	if r.err == nil && count > uint64(len(r.rest)) {
		r.fail("%d bytes wanted, %d left", count, len(r.rest))
	}
	if r.err != nil {
		return []byte{0}
	}
	taken := r.rest[:count]
	r.rest = r.rest[count:]
	return taken
}

// number reads an unsigned integer of 1, 2, 4 or 8 bytes.
func (r *reader) number(size byte) uint64 {
	var whole [8]byte
	copy(whole[8-size:], r.take(uint64(size)))
	return binary.BigEndian.Uint64(whole[:])
}

func (r *reader) value(depth int) any {
	if depth > depthMax {
		r.fail("more than %d levels", depthMax)
	}
	kind := r.take(1)[0]
	switch {
	case kind <= 0x7f || kind >= 0xe0:
		return int64(int8(kind))
	case kind <= 0x8f:
		return r.fields(uint64(kind&0x0f), depth)
	case kind <= 0x9f:
		return r.list(uint64(kind&0x0f), depth)
	case kind <= 0xbf:
		return r.text(uint64(kind & 0x1f))
	case kind == 0xc0:
		return nil
	case kind == 0xc2 || kind == 0xc3:
		return kind == 0xc3
	case kind >= 0xc4 && kind <= 0xc6:
		return append([]byte{}, r.take(r.number(1<<(kind-0xc4)))...)
	case kind == 0xca:
		return float64(math.Float32frombits(uint32(r.number(4))))
	case kind == 0xcb:
		return math.Float64frombits(r.number(8))
	case kind >= 0xcc && kind <= 0xcf:
		return int64(r.number(1 << (kind - 0xcc)))
	case kind >= 0xd0 && kind <= 0xd3:
		unused := 64 - 8<<(kind-0xd0)
		return int64(r.number(1<<(kind-0xd0))<<unused) >> unused
	case kind >= 0xd9 && kind <= 0xdb:
		return r.text(r.number(1 << (kind - 0xd9)))
	case kind == 0xdc || kind == 0xdd:
		return r.list(r.number(2<<(kind-0xdc)), depth)
	case kind == 0xde || kind == 0xdf:
		return r.fields(r.number(2<<(kind-0xde)), depth)
	}
	r.fail("the type 0x%x", kind)
	return nil
}

func (r *reader) text(length uint64) string {
	text := r.take(length)
	if !utf8.Valid(text) {
		r.fail("a text that is not UTF-8")
	}
	return string(text)
}

// list and fields grow as values come, so that an announced length costs nothing.
func (r *reader) list(length uint64, depth int) []any {
	list := []any{}
	for ; length > 0 && r.err == nil; length-- {
		list = append(list, r.value(depth+1))
	}
	return list
}

func (r *reader) fields(length uint64, depth int) map[string]any {
	fields := map[string]any{}
	for ; length > 0 && r.err == nil; length-- {
		key, isText := r.value(depth + 1).(string)
		if _, isTwice := fields[key]; !isText || isTwice {
			r.fail("a key that is no text, or comes twice")
		}
		fields[key] = r.value(depth + 1)
	}
	return fields
}
