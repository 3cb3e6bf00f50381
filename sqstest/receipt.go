package sqstest

import (
	"encoding/base64"
	"encoding/binary"
	"hash/maphash"
	"time"
)

// receipt is what a receipt handle says: which receive of which message of which queue.
// Handles carry it themselves, so that one of a deleted message can be told from one
// that was never given out without remembering either.
type receipt struct {
	queue      uint32
	message    uint64
	serial     uint32
	receivedAt time.Time
}

// Layout of a handle before base64: a mark, queue, message, serial, time, checksum.
const (
	receiptMark    = "\x01\x01\x01\x01" // the handles of SQS begin with AQEB as well
	receiptChecked = len(receiptMark) + 4 + 8 + 4 + 8
	receiptSize    = receiptChecked + 8
)

// receiptCodec writes and reads receipt handles. Its seed makes a handle of another
// service, or one that was made up, malformed.
type receiptCodec struct{ seed maphash.Seed }

func (c receiptCodec) encode(r receipt) string {
	var raw [receiptSize]byte
	b := append(raw[:0], receiptMark...)
	b = binary.BigEndian.AppendUint32(b, r.queue)
	b = binary.BigEndian.AppendUint64(b, r.message)
	b = binary.BigEndian.AppendUint32(b, r.serial)
	b = binary.BigEndian.AppendUint64(b, uint64(r.receivedAt.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, maphash.Bytes(c.seed, b))
	return base64.StdEncoding.EncodeToString(b)
}

func (c receiptCodec) decode(handle string) (receipt, bool) {
	if len(handle) != base64.StdEncoding.EncodedLen(receiptSize) {
		return receipt{}, false
	}
	b, err := base64.StdEncoding.AppendDecode(make([]byte, 0, receiptSize), []byte(handle))
	if err != nil || len(b) != receiptSize || string(b[:len(receiptMark)]) != receiptMark {
		return receipt{}, false
	}
	if binary.BigEndian.Uint64(b[receiptChecked:]) != maphash.Bytes(c.seed, b[:receiptChecked]) {
		return receipt{}, false
	}
	b = b[len(receiptMark):]
	return receipt{
		queue:      binary.BigEndian.Uint32(b),
		message:    binary.BigEndian.Uint64(b[4:]),
		serial:     binary.BigEndian.Uint32(b[12:]),
		receivedAt: time.Unix(0, int64(binary.BigEndian.Uint64(b[16:]))),
	}, true
}
