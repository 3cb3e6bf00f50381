package sqstest

import "maps"

// resourceTarget names a topic as the tag actions do.
type resourceTarget struct{ topicTarget }

func onResource(f *form) resourceTarget {
	return resourceTarget{topicTarget{f.text("ResourceArn")}}
}

func (t *resourceTarget) resource(c *call) (*Topic, *apiError) {
	name, err := topicName("ResourceArn", t.topicARN)
	if err != nil {
		return nil, err
	}
	topic := c.service.topics.lookup(name)
	if topic == nil {
		return nil, newSNSError(404, "ResourceNotFound", "Resource does not exist")
	}
	return topic, nil
}

type listTagsRequest struct{ resourceTarget }

func readListTags(f *form) (request, *apiError) { return &listTagsRequest{onResource(f)}, nil }

func (r *listTagsRequest) run(c *call) ([]byte, *apiError) {
	t, err := r.resource(c)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var x element
	x.open("Tags")
	for _, key := range sortedKeys(t.tags) {
		x.open("member")
		x.text("Key", key)
		x.text("Value", t.tags[key])
		x.close("member")
	}
	x.close("Tags")
	return x.bytes(), nil
}

type tagRequest struct {
	resourceTarget
	tags map[string]string
}

func readTag(f *form) (request, *apiError) {
	tags, err := f.tags()
	return &tagRequest{onResource(f), tags}, err
}

func (r *tagRequest) run(c *call) ([]byte, *apiError) {
	t, err := r.resource(c)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tags := make(map[string]string, len(t.tags)+len(r.tags))
	maps.Copy(tags, t.tags)
	maps.Copy(tags, r.tags)
	if len(tags) > maxTags {
		return nil, newSNSError(0, "TagLimitExceeded", "Could not complete request: tag quota of per resource exceeded")
	}
	t.tags = tags
	return nil, nil
}

type untagRequest struct {
	resourceTarget
	keys []*form
}

func readUntag(f *form) (request, *apiError) {
	return &untagRequest{onResource(f), f.list("TagKeys", "member")}, nil
}

func (r *untagRequest) run(c *call) ([]byte, *apiError) {
	t, err := r.resource(c)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range r.keys {
		if key.value != nil {
			delete(t.tags, *key.value)
		}
	}
	return nil, nil
}
