import type { Cause, Row, Update, ViewState } from '../../../../../../src/proto/views-json.ts'

/** A view that contains everything that commands can show. */

export const at = 1_763_790_000_000
const page = (order: readonly string[], counts = {}, more = 0) => ({ order: [...order], counts, more })

const cause: Cause = {
  kind: 'Pod',
  namespace: 'shop',
  name: 'web-6d4b9-x7k2p',
  id: 'p1',
  reason: 'OOMKilled',
  text: 'container app: exit code 137, 4 restarts in all',
  since: at - 240_000,
  atLeast: true,
  last: at - 40_000,
  count: 2,
  others: 1,
  next: 'kubectl -n shop logs web-6d4b9-x7k2p -c app --previous',
  undo: true,
}
const deployment: Row = {
  u: 'd1',
  k: 'apps/Deployment',
  ns: 'shop',
  n: 'web',
  p: 'g:shop',
  t: at - 3_600_000,
  h: ['Degraded', 'InProgress', 'Degraded'],
  why: ['', '', 'it has no replica that serves'],
  f: ['1/3 ready', '1 of 3 available'],
  c: 5,
  w: 'Degraded',
  g: 7,
  a: ['Pod'],
  z: cause,
  l: [
    ['mounts', '', 'Secret', 'shop', 'db'],
    ['needs', 's1', 'example.com/Store', '', 'main'],
  ],
}
const pod: Row = {
  u: 'p1',
  k: 'Pod',
  ns: 'shop',
  n: 'web-6d4b9-x7k2p',
  p: 'd1',
  h: ['Degraded', 'Failed', 'Degraded'],
  f: ['CrashLoopBackOff', '0/1 ready', '4 restarts', 'node worker-3'],
  z: { ...cause, text: 'container app: image registry.example/app:2.14.1' },
}

export const fullRows: readonly Row[] = [
  { u: 'g:shop', k: 'Application', n: 'shop', c: 1, w: 'Degraded', h: ['Degraded', 'Current', 'Degraded'] },
  deployment,
  pod,
  { u: 'b:d1:Pod', k: 'Pod', n: '', p: 'd1', c: 4 },
  {
    u: 'n1',
    k: 'Node',
    n: 'worker-3',
    c: 1,
    h: ['Healthy', 'Current', 'Healthy'],
    w: 'Degraded',
    z: { ...cause, kind: 'storage.k8s.io/CSINode', namespace: '', name: 'worker-3', id: '' },
  },
  { u: 'o:shop:u9', k: 'example.com/Owner', ns: 'shop', n: 'hidden', c: 1 },
]

export const fullState: ViewState = {
  is: 'live',
  since: at - 60_000,
  why: 'all kinds are listed',
  notFollowed: ['example.com/Widget', 'Secret shop'],
  aside: [
    ['Pod', 'conversion webhook is down', at - 120_000],
    ['metrics.example/*', 'service unavailable', at - 120_000],
  ],
  problems: ['views.yaml: line 3: unknown key "x", the last good file is used'],
  you: { username: 'ada', groups: ['developers'] },
  refused: [
    ['secrets', 'shop'],
    ['', ''],
  ],
  unknown: [['pos', 'pods']],
}

const event = {
  u: 'e1',
  ns: 'shop',
  about: ['Pod', 'web-6d4b9-x7k2p', 'p1'],
  type: 'Warning',
  reason: 'BackOff',
  text: 'Back-off restarting failed container',
  count: 12,
  at: at - 5000,
} as const
export const fullEvents = [
  event,
  { ...event, u: 'e2', about: ['apps/Deployment', 'web', ''], type: 'Normal', text: '', at: at - 600_000 },
] as const

const counts = { '': 1, Healthy: 3, Suspended: 1, Progressing: 1, Missing: 1, Degraded: 2, Unknown: 1 } as const

/** Update of the view tree. */
export const fullTree: Omit<Update, 'at'> = {
  seq: 1,
  rows: fullRows,
  pages: {
    '': page(['g:shop', 'n1', 'o:shop:u9'], counts, 7),
    'g:shop': page(['d1'], { Degraded: 1 }),
    d1: page(['p1', 'b:d1:Pod'], {}, 2),
    'o:shop:u9': page([], {}, 1),
    n1: page([], {}, 1),
  },
  state: fullState,
}

/** Update of the view list. */
export const fullList: Omit<Update, 'at'> = {
  seq: 1,
  rows: [deployment],
  pages: { '': page(['d1'], counts, 3) },
  state: fullState,
}

/** Update of the view events, for all namespaces. */
export const fullEventList: Omit<Update, 'at'> = {
  seq: 1,
  events: fullEvents,
  pages: { '': page([]), 'n:': page(['e1', 'e2'], {}, 4) },
  state: fullState,
}
