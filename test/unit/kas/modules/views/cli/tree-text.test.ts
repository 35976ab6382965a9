import t from 'tap'
import { causeLines } from '../../../../../../src/kas/modules/views/cli/cause-text.ts'
import { cut } from '../../../../../../src/kas/modules/views/cli/lines.ts'
import { ShownView } from '../../../../../../src/kas/modules/views/cli/shown-view.ts'
import { treeText } from '../../../../../../src/kas/modules/views/cli/tree-text.ts'
import { clockText, Paint } from '../../../../../../src/kas/modules/views/cli/verdict-text.ts'
import type { Cause, Row } from '../../../../../../src/proto/views-json.ts'

/** Texts of rows in a tree, by the width of the terminal. */

const at = 1_763_790_000_000
const since = at - 240_000
const page = (order: string[]) => ({ order, counts: {}, more: 0 })
const slice: Row = {
  u: 'e',
  k: 'discovery.k8s.io/EndpointSlice',
  ns: 'shop',
  n: 'web-abc',
  h: ['Healthy', 'Current', 'Healthy'],
}

/** Returns the output of `kas tree -n shop` for these rows, all open. */
function treeOf(rows: readonly Row[], columns: number): string {
  const model = new ShownView()
  const nodes = new Set(['', ...rows.flatMap(({ p }) => p ?? [])])
  const below = (node: string) => rows.filter(({ p = '' }) => p === node).map(({ u }) => u)
  model.apply({ seq: 1, at, rows, pages: Object.fromEntries([...nodes].map((node) => [node, page(below(node))])) })
  const layout = { now: at, columns, paint: new Paint(false), isVerbose: false }
  return treeText(model, layout, { namespace: 'shop' })
}
const degraded = (u: string, k: string, n: string, z: Cause, more: Partial<Row> = {}): Row => ({
  u,
  k,
  ns: 'shop',
  n,
  h: ['', 'Current', 'Degraded'],
  z,
  ...more,
})
const mount: Cause = {
  kind: 'Pod',
  namespace: 'shop',
  name: 'db-0',
  id: 'p',
  reason: 'FailedMount',
  text: 'secret "db-tls" not found',
  since,
  last: at - 19_000,
  next: 'kubectl -n shop get secret db-tls',
}
const said = clockText(since, at)

t.test('where a line is too long, since when is not what is cut', async (t) => {
  const root = (n: string, first: string) =>
    degraded(n, 'apps/Deployment', n, mount, { f: [first, '1/3 updated to web:9'] })
  const pod = degraded('p', 'Pod', 'web-7b4c66b766-jgrwr', mount, {
    p: 'web',
    f: ['CreateContainerConfigError', '0/1 ready', 'node n1'],
  })
  const lines = (columns: number, ...rows: Row[]) =>
    treeOf(rows, columns)
      .split('\n')
      .map((line) => cut(line, columns))
  const short = root('web', '1 of 3 available: reduced')
  t.equal(
    lines(200, short)[0],
    `✗ degraded  Deployment/web  1 of 3 available: reduced  1/3 updated to web:9  since ${said} (4m)`,
  )
  t.equal(lines(80, short)[0], `✗ degraded  Deployment/web  1 of 3 available: reduced  since ${said} (4m)  1/3 up…`)
  const long = root('web', '3 of 3 available: old version serves')
  t.strictSame(lines(80, long, pod).slice(0, 4), [
    '✗ degraded  Deployment/web  3 of 3 available: old version serves  1/3 updated t…',
    `    Pod db-0: FailedMount: secret "db-tls" not found, last seen 19s ago,`,
    `      since ${said} (4m)`,
    '    next: kubectl -n shop get secret db-tls',
  ])
  const below = lines(90, long, pod).at(-2)
  t.equal(below, '└─ ✗ degraded  Pod/web-7b4c66b766-jgrwr  CreateContainerConfigError  0/1 ready  node n1')
  const seconds = { ...pod, z: { ...mount, since: since + 2000 } }
  t.equal(lines(90, long, seconds).at(-2), below)
  const later = { ...pod, z: { ...mount, since: since + 60_000 } }
  t.match(lines(90, long, later).at(-2), `CreateContainerConfigError  since ${clockText(since + 60_000, at)} (3m)`)
})

t.test('of those that are not well by the same cause the first says it', async (t) => {
  const service = degraded('s', 'Service', 'db', mount)
  const set = degraded('d', 'apps/StatefulSet', 'db', { ...mount, undo: true }, { f: ['0 of 1 available'] })
  t.equal(
    treeOf([service, set], 200),
    [
      `✗ degraded  Service/db  since ${said} (4m)\n`,
      '    Pod db-0: FailedMount: secret "db-tls" not found, last seen 19s ago\n',
      '    next: kubectl -n shop get secret db-tls\n',
      `✗ degraded  StatefulSet/db  0 of 1 available  since ${said} (4m)\n`,
      '    same cause as Service/db\n',
      '    or undo: kubectl -n shop rollout undo statefulset/db\n',
    ].join(''),
  )
  const more = { ...mount, count: 3 }
  t.match(treeOf([service, { ...set, z: more }], 200), '    same cause as Service/db (3 Pods)\n')
  const other = { ...mount, text: 'secret "db-key" not found' }
  t.match(treeOf([service, { ...set, z: other }], 200), 'FailedMount: secret "db-key" not found')
  t.match(
    treeOf([service, { ...set, ns: 'bank' }], 200),
    /bank\/StatefulSet\/db .*\n {4}same cause as shop\/Service\/db\n/,
  )
})

t.test('other causes are named where rows below have them, and no more than there are', async (t) => {
  const tree = (others: number, ...below: Cause[]) =>
    treeOf(
      [
        degraded('d', 'apps/StatefulSet', 'db', { ...mount, others }),
        ...below.map((z, i) => degraded(`p${i}`, 'Pod', `db-${i}`, z, { p: 'd' })),
      ],
      200,
    )
  const unbound: Cause = { ...mount, kind: 'PersistentVolumeClaim', name: 'data', reason: 'NotBound' }
  const node: Cause = { ...mount, kind: 'Node', namespace: '', name: 'n1', reason: 'NodeNotReady' }
  t.match(tree(1, mount, unbound), '\n    and 1 other cause: PersistentVolumeClaim data: NotBound\n')
  t.match(tree(2, unbound), '\n    and 2 other causes: PersistentVolumeClaim data: NotBound, …\n')
  t.match(tree(1, unbound, node), '\n    and 1 other cause\n', 'one of them does not count')
  t.match(tree(1, mount), '\n    and 1 other cause\n')
  t.notMatch(tree(0, unbound), 'other cause')
})

t.test('what is usual is counted once, at the end, and what is not well is shown', async (t) => {
  const rows: Row[] = [
    { u: 'a', k: 'Service', ns: 'shop', n: 'a', h: ['', 'Current', 'Healthy'] },
    { ...slice, u: 'ea', p: 'a' },
    { u: 'b', k: 'Service', ns: 'shop', n: 'b', h: ['', 'Current', 'Healthy'] },
    { ...slice, u: 'eb', n: 'b-abc', p: 'b' },
    { ...slice, u: 'ec', n: 'b-bad', p: 'b', h: ['', 'Current', 'Degraded'] },
    { u: 'r', k: 'apps/ControllerRevision', ns: 'shop', n: 'r', p: 'b' },
  ]
  t.equal(
    treeOf(rows, 80),
    [
      '✓ Service/a\n',
      '✓ Service/b\n',
      '└─ ✗ degraded  EndpointSlice/b-bad\n',
      '· folded (-v): 2 EndpointSlice, 1 ControllerRevision\n',
    ].join(''),
  )
})

t.test('a command stands on a line of its own, or is one for a shell all the same', async (t) => {
  const lines = (next: string, columns: number) =>
    causeLines(
      degraded('d', 'Pod', 'db', { ...mount, next }),
      { now: at, columns, paint: new Paint(false), isVerbose: false },
      '    ',
    ).slice(-3)
  const path = 'kubectl -n shop get pod db-0 -o jsonpath={.spec.imagePullSecrets}'
  t.equal(lines(path, 200).at(-1), "    next: kubectl -n shop get pod db-0 -o jsonpath='{.spec.imagePullSecrets}'")
  const middle = `kubectl -n shop describe ${'x'.repeat(49)}`
  t.strictSame(lines(middle, 80).slice(-2), ['    next:', `      ${middle}`])
  const long = `kubectl -n shop get ${'x'.repeat(40)} db-0 -o jsonpath={.spec.imagePullSecrets}`
  const shown = lines(long, 80)
  t.equal(shown[0], '    next:')
  t.ok(shown.every((line) => line.length <= 80))
  t.match(shown.at(-1), /^ +-o jsonpath=/, 'an option stays with its word')
  t.equal(
    shown
      .slice(1)
      .join('\n')
      .trim()
      .replace(/ \\\n */, ' '),
    long.replace(/(\{.*)/, "'$1'"),
  )
})

t.test('Pods that have failed for good by one reason are two lines, and how many more there are', async (t) => {
  const root = degraded('r', 'apps/ReplicaSet', 'cache', { ...mount, reason: 'Evicted' })
  const pods = (count: number, reason: string): Row[] =>
    Array.from({ length: count }, (_, i) => ({
      ...degraded(`${reason}-${i}`, 'Pod', `cache-${i}`, { ...mount, reason }, { p: 'r', f: [reason, '0/1 ready'] }),
    }))
  const text = treeOf([root, ...pods(30, 'Evicted')], 200)
  t.match(text, /\n└─ … 28 more Pods Evicted \(-v\)\n$/)
  t.ok(text.split('\n').length < 12, text)
  t.notMatch(treeOf([root, ...pods(30, 'CrashLoopBackOff')], 200), /more Pods/, 'these are there')
  t.notMatch(treeOf([root, ...pods(2, 'OutOfcpu')], 200), /more Pods/)
})

t.test('many of one kind that are one row have no name: how many there are stands in its place', async (t) => {
  const root = degraded('r', 'apps/ReplicaSet', 'cache', mount)
  const text = treeOf([root, { u: 'b:r:Pod', k: 'Pod', n: '', p: 'r', c: 450, w: 'Degraded' }], 200)
  t.match(text, / degraded below {2}450 Pod\n/)
  t.notMatch(text, /Pod\/\s/)
})

t.test('what no controller has observed is asked about once', async (t) => {
  const of = (name: string): Cause => ({
    kind: 'apps/Deployment',
    namespace: 'shop',
    name,
    id: name,
    reason: 'NotReconciled',
    text: 'no controller has observed the change: does kube-controller-manager run?',
    next: `kubectl -n shop describe deployment.apps ${name}`,
  })
  const rows = ['a', 'b', 'c'].map((name) => degraded(name, 'apps/Deployment', name, of(name)))
  const text = treeOf(rows, 200)
  t.equal(text.match(/kube-controller-manager/g)?.length, 1, text)
  t.equal(text.match(/same cause as Deployment\/a/g)?.length, 2, text)
})
