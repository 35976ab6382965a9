/**
 * Answers of kas, of a replica's socket and of an API server, and files that commands read. They contain each string at
 * least once.
 */

const at = 1_763_790_000_000
const row = {
  u: 'd1',
  k: 'apps/Deployment',
  ns: 'shop',
  n: 'web',
  t: at,
  h: ['', 'Current', 'Degraded'],
  why: ['', '', 'it has no replica'],
  f: ['1/3 ready'],
  l: [['made by', 'd2', 'apps/Deployment', 'shop', 'web-2']],
  z: { kind: 'Pod', namespace: 'shop', name: 'web-1', id: 'p1', reason: 'OOMKilled', text: 'exit code 137', next: '' },
}
const event = {
  u: 'e1',
  ns: 'shop',
  about: ['Pod', 'web-1', 'd1'],
  type: 'Warning',
  reason: 'BackOff',
  text: 'it waits',
  count: 2,
  at,
}
export const view = {
  type: 'update',
  id: 1,
  update: {
    seq: 1,
    at,
    rows: [row],
    events: [event],
    pages: { '': { order: ['d1'], counts: {}, more: 0 }, 'n:': { order: ['e1'], counts: {}, more: 0 } },
    state: { is: 'live', since: 0, why: 'it is', notFollowed: ['x.example/X'], problems: ['views.yaml: line 3: x'] },
  },
}
export const refusedView = {
  type: 'update',
  id: 1,
  update: {
    seq: 1,
    at,
    pages: { '': { order: [], counts: {}, more: 0 }, 'n:': null },
    state: {
      is: 'live',
      since: 0,
      you: { username: 'ada', groups: ['g'] },
      refused: [['pods', 'shop']],
      unknown: [['pods', 'pod']],
    },
  },
}
export const viewError = { type: 'error', id: 1, code: 'FORBIDDEN', text: 'you may not' }
export const agents = {
  user: 'ada',
  agents: [
    {
      id: '7',
      name: 'prod',
      project: 'platform/clusters',
      pods: 1,
      connected: [{ replica: 'kas-0', since: '2026-11-26T18:00:00.000Z' }],
    },
  ],
  unread: 1,
}
const key = { kind: 'Service', namespace: 'shop', name: 'web' }
export const gitops = {
  sources: [
    {
      source: '42-7',
      commit: 'a'.repeat(40),
      wanted: 'b'.repeat(40),
      phase: 'APPROVAL',
      problem: 'it fails',
      counts: { objects: 1, applied: 0, unchanged: 0, failed: 1 },
      trouble: [{ key, text: 'no', file: 'a.yaml', line: 3 }],
      stale: false,
      project: 'platform/shop',
      name: 'web',
      ref: 'branch main',
      plan: 'abc',
      leaving: [{ key, text: 'prune' }],
      kept: [{ key, text: 'never' }],
      next: 'kubectl annotate gitsync',
      object: '/api/v1/x',
    },
  ],
  agent: 'connected',
  configuration: { commit: 'c', phase: 'REFUSED', problem: 'line 3', next: 'mend it' },
}
/** answer of kas about what differs between Git and the cluster, with every field set */
export const diff = {
  source: '42-7',
  scan: true,
  differing: [
    {
      object: {
        key,
        kind: 'drifted',
        deleted: false,
        path: [],
        more_paths: 0,
        manager: 'kubectl-edit',
        operation: 'Update',
        changed_at_ms: '990000',
        since_ms: '991000',
        correct_at_ms: '1290000',
        left: 'hold',
        hold_until_ms: '1300000',
        text: 'refused',
        file: 'a.yaml',
        line: 3,
      },
      field: [
        {
          path: '.data…',
          kind: 'changed',
          before: '***',
          after: '***',
          manager: 'kubectl-edit',
          operation: 'Update',
          time: '2026-01-01T00:00:00Z',
          secret_key: 'token',
          rule: '',
        },
      ],
      more: 2,
      ignored: [
        {
          path: '.spec.replicas',
          kind: 'reordered',
          before: '1',
          after: '2',
          manager: '',
          operation: '',
          time: '',
          secret_key: '',
          rule: 'Deployment .spec.replicas',
        },
      ],
      more_ignored: 1,
    },
  ],
  objects: 9,
  compared: 8,
  withheld: 1,
  cut: 2,
  problem: 'agentk does not follow it',
  at_ms: '1000000',
  mode: 'correct',
}
export const status = {
  instance: 'i',
  replica: { name: 'kas-0', version: '0.1.0', problem: 'it drains' },
  members: [
    {
      name: 'kas-1',
      instance: 'i',
      state: 'serving',
      version: '0.1.0',
      address: '10.0.0.1:8155',
      reach: 'reachable',
      calls: 0,
      gossip: true,
      instances: 2,
      row: { version: 1, connections: 1, pods: 1, agents: 1 },
    },
  ],
  agents: [{ agentId: '42', holders: [{ name: 'kas-1', connections: 1 }], pods: 1, rank: ['kas-1'] }],
  agentCount: 1,
  refusedCallers: [{ caller: 'user 7', agentId: '42', held: 1, living: 2, watches: 0, refused: 3, lastAt: at }],
  modules: {
    gitops: [
      ['SOURCE', 'PHASE'],
      ['42-7', 'SYNCED'],
    ],
  },
}
export const ofAgent = {
  ...status,
  agents: [
    {
      ...status.agents[0],
      entries: [
        {
          replica: 'kas-1',
          kind: 'registration',
          pod: 'agentk-0',
          role: 'lead',
          version: '17',
          methods: ['/a/B'],
          since: at,
        },
      ],
    },
  ],
}
export const route = {
  agentId: '42',
  method: '/a/B',
  entry: 'kas-0',
  rank: ['kas-0'],
  own: { tunnels: 1, idle: 0, waiting: 0 },
  ways: [{ name: 'kas-1', state: 'serving', reach: 'reachable', calls: 0, serves: true }],
  verdict: 'hand-over',
  by: 'kas-1',
  why: 'it holds it',
}
const call = {
  caller: { kind: 'ci_job', id: '5', name: 'ada', project: '3', job: '900', pipeline: '90' },
  agent_id: '42',
  verb: 'create',
  group: 'apps',
  resource: 'deployments',
  subresource: 'exec',
  namespace: 'shop',
  name: 'web',
  program: 'sh',
  address: '10.0.0.7',
}
export const sessions = {
  replicas: [
    { name: 'kas-0', sessions: [{ ...call, id: '6f8b1c2d-0000', since: '2026-11-26T18:00:00.000Z' }], total: 2 },
  ],
  unreached: ['kas-1'],
}
export const ended = { replicas: [{ name: 'kas-0', ended: 1 }], unreached: ['kas-1'] }
export const line = {
  time: '2026-11-26T18:00:00.000Z',
  event: 'begin',
  class: 'write',
  ...call,
  as: 'gitlab:user:ada',
  outcome: 'failed',
  reason: 'FORBIDDEN',
  status: 200,
  entry: 'kas-0',
}
export const pathLine = {
  time: line.time,
  event: 'refused',
  class: 'refusal',
  verb: 'GET',
  path: '/version',
  address: '10.0.0.7',
  reason: 'x',
  entry: 'kas-0',
}
export const events = {
  items: [{ reason: 'BackOff', message: 'it waits', metadata: { creationTimestamp: '2026-11-26T18:00:00Z' } }],
}
export const groupList = {
  groups: [{ name: 'x.example', preferredVersion: { version: 'v1' }, versions: [{ version: 'v1' }] }],
}
export const resources = {
  resources: [{ name: 'xs', kind: 'X', namespaced: true, verbs: ['get', 'list', 'watch', 'patch'] }],
}
/** object that a source keeps */
export const heldObject = { metadata: { labels: { 'agent.gitlab.com/inventory': '42-7' } } }
export const directory = {
  projects: [
    {
      id: 1,
      path: 'platform/clusters',
      groups: [{ id: 7, path: 'platform' }],
      git: { url: '/srv/git/x.git', default_branch: 'main' },
    },
  ],
  agents: [{ id: 1, name: 'prod', project: 1, tokens: [{ name: 't', sha256: 'a'.repeat(64) }] }],
  users: [
    {
      id: 1,
      username: 'ada',
      tokens: [{ name: 'u', sha256: 'b'.repeat(64), expires: '2027-01-01' }],
      roles: { projects: { 1: ['developer'] } },
    },
  ],
  ci_tokens: [
    {
      sha256: 'c'.repeat(64),
      user: 1,
      project: 1,
      job: 5,
      pipeline: 6,
      environment: { slug: 'e', tier: 'production', name: 'n' },
    },
  ],
  environments: [{ project: 1, slug: 'e', on: [{ agent: 1, namespace: 'shop', selector: { app: 'web' } }] }],
}
export const agentFile = {
  user_access: { access_as: { agent: {} }, projects: [{ id: 'platform/clusters' }] },
  ci_access: { projects: [{ id: 'platform/clusters', access_as: { impersonate: { username: 'x', groups: ['g'] } } }] },
}
export const configuration = {
  gitlab: { address: 'http://127.0.0.1:1' },
  directory: { file: 'directory.yaml' },
  ops: { socket: 'ops' },
}
