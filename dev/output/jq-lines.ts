/** Questions that people ask of JSON, each a line of a shell. */
export interface JqLine {
  readonly question: string
  /** after `kas`, without `-o json` */
  readonly kas: string
  /** after `jq`, as a shell takes it */
  readonly jq: string
}

export const jqLines: readonly JqLine[] = [
  { question: 'agents that are away', kas: 'agents', jq: `-r '.items[] | select(.connected == []) | .name'` },
  {
    question: 'agents of each replica',
    kas: 'agents',
    jq: `-r '[.items[].connected[].replica] | group_by(.)[] | "\\(.[0]) \\(length)"'`,
  },
  {
    question: 'Pods that are degraded',
    kas: 'get pods -A',
    jq: `-r '.items[] | select(.verdict == "Degraded") | "\\(.namespace)/\\(.name)"'`,
  },
  {
    question: 'Pods by reason',
    kas: 'get pods -A',
    jq: `-r '[.items[] | select(.reason)] | group_by(.reason)[] | "\\(.[0].reason) \\(length)"'`,
  },
  {
    question: 'images that cannot be pulled',
    kas: 'get pods -A',
    jq: `-r '.items[].message // empty | capture("image (?<image>\\\\S+?):? ").image'`,
  },
  {
    question: 'the Pod that has been in trouble for longest',
    kas: 'get pods -A',
    jq: `-r '[.items[] | select(.since)] | min_by(.since) | "\\(.name) \\(.since)"'`,
  },
  {
    question: 'the Pod with most restarts',
    kas: 'get pods -A',
    jq: `-r '.items | max_by([.facts[] | capture("^(?<n>[0-9]+) restarts?$").n | tonumber] | add // 0).name'`,
  },
  {
    question: 'nodes on which Pods fail',
    kas: 'get pods -A',
    jq: `-r '[.items[] | select(.verdict == "Degraded").facts[] | capture("^node (?<node>.+)").node] | unique[]'`,
  },
  {
    question: 'what is at fault, for each Deployment',
    kas: 'get deployments -A',
    jq: `-r '.items[] | select(.culprit) | "\\(.name): \\(.culprit.kind)/\\(.culprit.name)"'`,
  },
  { question: 'what to read next', kas: 'get deployments -A', jq: `-r '.items[].next // empty'` },
  { question: 'how many are degraded', kas: 'get deployments -A', jq: `'.counts.degraded // 0'` },
  { question: 'whether it is so now', kas: 'get deployments -A', jq: `-e '.state == "live" and .unlisted == 0'` },
  {
    question: 'what you may not list',
    kas: 'get deployments -A',
    jq: `-r '.refused[]? | "\\(.resource // "anything") in \\(.namespace // "all namespaces")"'`,
  },
  {
    question: 'kinds that cannot be listed, and why',
    kas: 'get deployments -A',
    jq: `-r '.aside[]? | "\\(.kind): \\(.message)"'`,
  },
  {
    question: 'what belongs to a Deployment',
    kas: 'tree',
    jq: `-r '(.items[] | select(.kind == "Deployment" and .name == "web").id) as $id | .items[] | select(.parent == $id) | "\\(.kind)/\\(.name // "*")"'`,
  },
  {
    question: 'applications with trouble below',
    kas: 'tree',
    jq: `-r '.items[] | select(.type == "group" and .worstBelow == "Degraded") | .name'`,
  },
  {
    question: 'Warnings by reason',
    kas: 'get events',
    jq: `-r '[.items[] | select(.type == "Warning")] | group_by(.reason)[] | "\\(.[0].reason) \\(map(.count) | add)"'`,
  },
  {
    question: 'events of a Pod',
    kas: 'get events',
    jq: `-r '.items[] | select(.object.name == "web-6d4b9-x7k2p") | "\\(.lastSeen) \\(.message)"'`,
  },
  {
    question: 'why it is not healthy',
    kas: 'health',
    jq: `-r '.items[] | select(.reason) | "\\(.name): \\(.reason)"'`,
  },
  {
    question: 'what becomes degraded, as it happens',
    kas: 'get deployments --watch',
    jq: `-r 'select(.type != "DELETED" and .object.verdict? == "Degraded") | .object.name'`,
  },
  { question: 'users without a role', kas: 'user list', jq: `-r '.items[] | select(.roles == []) | .name'` },
  {
    question: 'tokens that end before a day',
    kas: 'token list',
    jq: `-r '.items[] | select(.expires and .expires < "2027-02-01") | "\\(.ownerKind) \\(.owner)"'`,
  },
  {
    question: 'sessions of each user',
    kas: 'sessions',
    jq: `-r '[.items[].caller.name] | group_by(.)[] | "\\(.[0]) \\(length)"'`,
  },
  {
    question: 'replicas that are not reached',
    kas: 'status',
    jq: `-r '.members[]? | select(.reach == "down" or .reach == "unreachable") | .name'`,
  },
  {
    question: 'what is wrong in a configuration',
    kas: 'check-config --configuration-file kas.yaml',
    jq: `-r '.files[].problems[] | "\\(.file): \\(.key // "-"): \\(.text)"'`,
  },
]
