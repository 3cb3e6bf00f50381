package sqstest

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
)

func bodyMD5(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// attributesMD5 is the checksum of message attributes, which have to be sorted by
// name: for each the length and bytes of name, data type and value, with a byte that
// tells text (1) from binary (2) before the value (sqs-facts 4.4).
func attributesMD5(attributes []attribute) string {
	if len(attributes) == 0 {
		return ""
	}
	var buf []byte
	for i := range attributes {
		a := &attributes[i]
		buf = appendSized(buf, a.name)
		buf = appendSized(buf, a.dataType)
		if a.isBinary {
			buf = append(buf, 2)
			buf = appendSized(buf, string(a.binary))
		} else {
			buf = append(buf, 1)
			buf = appendSized(buf, a.text)
		}
	}
	sum := md5.Sum(buf)
	return hex.EncodeToString(sum[:])
}

func appendSized(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}
