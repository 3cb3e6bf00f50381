package sqstest

const (
	maxEntries   = 10
	maxEntryID   = 80
	maxBatchSize = 1 << 20 // bytes of all entries, whatever the queue's MaximumMessageSize
)

// batchEntry is an entry of a batch request.
type batchEntry interface{ entryID() string }

// checkBatch refuses a batch as a whole (sqs-facts 4.7). The kind is the name of its
// entries, which the text of one error contains.
func checkBatch[E batchEntry](kind string, entries []E) *apiError {
	if len(entries) == 0 {
		return errorf("EmptyBatchRequest", "There should be at least one %s in the request.", kind)
	}
	if len(entries) > maxEntries {
		return errorf("TooManyEntriesInBatchRequest", "Maximum number of entries per request are %d. You have sent %d.", maxEntries, len(entries))
	}
	for i := range entries {
		if !validEntryID(entries[i].entryID()) {
			return newError(0, "InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.")
		}
	}
	for i := range entries {
		for k := range i {
			if id := entries[i].entryID(); id == entries[k].entryID() {
				return errorf("BatchEntryIdsNotDistinct", "Id %s repeated.", id)
			}
		}
	}
	return nil
}

func validEntryID(id string) bool {
	if id == "" || len(id) > maxEntryID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		legal := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
		if !legal {
			return false
		}
	}
	return true
}

// batchAnswer collects the results of the entries of a batch.
type batchAnswer struct{ successful, failed []byte }

func (a *batchAnswer) succeed(id string) {
	o := a.success(id)
	a.successful = o.end()
}

// success begins the result of an entry that succeeded; the caller ends it and puts it
// back into successful.
func (a *batchAnswer) success(id string) object {
	if a.successful != nil {
		a.successful = append(a.successful, ',')
	}
	o := newObject(a.successful)
	o.text("Id", id)
	return o
}

func (a *batchAnswer) fail(id string, err *apiError) {
	if a.failed != nil {
		a.failed = append(a.failed, ',')
	}
	o := newObject(a.failed)
	o.text("Id", id)
	o.text("Code", err.code)
	o.text("Message", err.message)
	o.flag("SenderFault", !err.receiver)
	a.failed = o.end()
}

func (a *batchAnswer) body() []byte {
	o := newObject(make([]byte, 0, len(a.successful)+len(a.failed)+40))
	for _, list := range []struct {
		name    string
		results []byte
	}{{"Successful", a.successful}, {"Failed", a.failed}} {
		if list.results != nil {
			o.key(list.name)
			o.b = append(o.b, '[')
			o.b = append(o.b, list.results...)
			o.b = append(o.b, ']')
		}
	}
	return o.end()
}
