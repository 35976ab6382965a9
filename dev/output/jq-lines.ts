/** A user's question about JSON output, as a line of a shell. */
export interface JqLine {
  readonly question: string
  /** words after `kas`, without `-o json` */
  readonly kas: string
  /** words after `jq`, with the shell's quotes */
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
  {
    question: 'Pods in trouble by namespace',
    kas: 'get pods -A',
    jq: `-r '[.items[] | select(.verdict == "Degraded")] | group_by(.namespace)[] | "\\(.[0].namespace) \\(length)"'`,
  },
  {
    question: 'what mounts a Secret',
    kas: 'tree',
    jq: `-r '.items[] | select(any(.links[]?; .relation == "mounts" and .kind == "Secret" and .name == "db")) | "\\(.kind)/\\(.name)"'`,
  },
  {
    question: 'links to what is not there, or may not be seen',
    kas: 'tree',
    jq: `-r '.items[] | .name as $name | .links[]? | select(.uid | not) | "\\($name) \\(.relation) \\(.kind)/\\(.name)"'`,
  },
  {
    question: 'sources that fail',
    kas: 'gitops status',
    jq: `-r '.items[] | select(.phase == "FAILING") | "\\(.project): \\(.message // .phase)"'`,
  },
  {
    question: 'objects that could not be applied, and why',
    kas: 'gitops status',
    jq: `-r '.items[].failures[] | select(.object) | "\\(.object.kind)/\\(.object.name): \\(.message)"'`,
  },
  {
    question: 'files with a fault',
    kas: 'gitops status',
    jq: `-r '.items[].failures[] | select(.file) | "\\(.file):\\(.line // "-"): \\(.message)"'`,
  },
  {
    question: 'plans that wait for approval',
    kas: 'gitops status',
    jq: `-r '.items[] | select(.phase == "APPROVAL") | "\\(.id) \\(.plan // "-")"'`,
  },
  {
    question: 'what a plan deletes',
    kas: 'gitops status',
    jq: `-r '.items[].leaving[].object // empty | "\\(.kind)/\\(.name)"'`,
  },
  {
    question: 'sources behind the head of their branch',
    kas: 'gitops status',
    jq: `-r '.items[] | select(.polled.commit and .polled.commit != .commit) | .project'`,
  },
  {
    question: 'the commit in each environment',
    kas: 'gitops status',
    jq: `-r '.items[] | .commit as $commit | .environments[] | "\\(.) \\($commit // "none" | .[:8])"'`,
  },
  {
    question: 'who deleted what',
    kas: 'log',
    jq: `-r 'select(.event == "end" and .verb == "delete" and .status < 300) | "\\(.time) \\(.caller.name) \\(.resource)/\\(.name)"'`,
  },
  {
    question: 'who ran a program in which Pod',
    kas: 'log',
    jq: `-r 'select(.event == "begin" and .subresource == "exec") | "\\(.caller.name) \\(.namespace)/\\(.name): \\(.program)"'`,
  },
  {
    question: 'what CI jobs have changed',
    kas: 'log',
    jq: `-r 'select(.event == "end" and .class == "write" and .caller.kind == "ci_job") | "job \\(.caller.job): \\(.verb) \\(.resource)/\\(.name // "-")"'`,
  },
  {
    question: 'who was refused, and how often',
    kas: 'log',
    jq: `-rs 'map(select(.class == "refusal")) | group_by(.caller.name // .address)[] | "\\(.[0].caller.name // .[0].address) \\(map(.count // 1) | add)"'`,
  },
  { question: 'tokens without an end', kas: 'token list', jq: `-r '.items[] | select(.expires | not) | .sha256[:8]'` },
  {
    question: 'callers that had more than their share',
    kas: 'status',
    jq: `-r '.refusedCallers[] | "\\(.caller): \\(.refused) refused"'`,
  },
]
