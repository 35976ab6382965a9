import t from 'tap'
import { causeLines } from '../../../../../../src/kas/modules/views/cli/cause-text.ts'
import { cut, folded } from '../../../../../../src/kas/modules/views/cli/lines.ts'
import { ShownView } from '../../../../../../src/kas/modules/views/cli/shown-view.ts'
import { treeText } from '../../../../../../src/kas/modules/views/cli/tree-text.ts'
import { clockText, Paint } from '../../../../../../src/kas/modules/views/cli/verdict-text.ts'
import type { ArgoWord, Cause, Row } from '../../../../../../src/proto/views-json.ts'
import { startViewsServer } from './views-server.ts'

const at = 1_763_790_000_000
const live = { is: 'live', since: 0 } as const
const page = (order: string[], more = 0) => ({ order, counts: {}, more })
const since = at - 240_000
const next = 'kubectl -n shop logs web-6d4b9-x7k2p -c app --previous'
const text = 'container app: exit code 137 (OOMKilled), 4 restarts, limit 64Mi'
const bareText = 'container app: exit code 137, 4 restarts, limit 64Mi'
const web = {
  u: 'd1',
  k: 'apps/Deployment',
  ns: 'shop',
  n: 'web',
  t: at - 86_400_000,
  h: ['Progressing', 'InProgress', 'Degraded'] as const,
  why: ['', '', text] as const,
  f: ['1/3 ready'],
  c: 3,
  g: 2,
  z: {
    kind: 'Pod',
    namespace: 'shop',
    name: 'web-6d4b9-x7k2p',
    id: 'p1',
    reason: 'OOMKilled',
    text,
    since,
    last: at - 40_000,
    count: 2,
    others: 1,
    next,
  },
}
const set = (u: string, n: string, ready: string, word: 'Healthy' | 'Degraded') => ({
  u,
  k: 'apps/ReplicaSet',
  ns: 'shop',
  n,
  p: 'd1',
  t: at - 86_400_000,
  h: ['Healthy', 'Current', word] as const,
  f: [ready],
  ...(word === 'Degraded' ? { z: web.z } : {}),
})
const slice = {
  u: 'e',
  k: 'discovery.k8s.io/EndpointSlice',
  ns: 'shop',
  n: 'web-abc',
  p: 'd1',
  h: ['Healthy', 'Current', 'Healthy'] as const,
}
const claim = {
  u: 'c1',
  k: 'PersistentVolumeClaim',
  ns: 'shop',
  n: 'data',
  h: ['Progressing', 'InProgress', 'Degraded'] as const,
  z: {
    kind: 'PersistentVolumeClaim',
    namespace: 'shop',
    name: 'data',
    id: 'c1',
    reason: 'StorageClassMissing',
    text: 'storage class "fast"',
    since,
    atLeast: true,
    next: '',
  },
}
const rows = [
  web,
  set('s1', 'web-6d4b9', '1/3 ready', 'Degraded'),
  set('s0', 'web-5c3a8', '0/0 ready', 'Healthy'),
  slice,
  claim,
]
const pages = { '': page(['d1', 'c1']), d1: page(['s1', 's0', 'e']) }

t.test('a tree names the cause below what is not well, and folds what is usual', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const tree = async (...more: string[]) => {
    const { said, code } = run('tree', '-n', 'shop', ...more)
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    one.update({ seq: 1, at, rows, pages, state: { ...live, notFollowed: ['Secret', 'Event'] } })
    t.equal(await code, 0)
    return said.stdout
  }
  t.equal(
    await tree(),
    [
      `✗ degraded  Deployment/web  1/3 ready  since ${clockText(since, at)} (4m)\n`,
      `    2 Pods, e.g. web-6d4b9-x7k2p: OOMKilled: ${bareText}, last seen 40s ago\n`,
      `    next: ${next}\n`,
      '    and 1 other cause\n',
      `└─ ✗ degraded  ReplicaSet/web-6d4b9  1/3 ready  since ${clockText(since, at)} (4m)\n`,
      '✗ degraded  PersistentVolumeClaim/data  ≥ 4m\n',
      '    StorageClassMissing: storage class "fast"\n',
      '· folded (-v): 1 ReplicaSet, 1 EndpointSlice\n',
      '2 kinds not followed (-v)\n',
    ].join(''),
  )
  const all = await tree('-v')
  t.match(all, /├─ ✓ ReplicaSet\/web-5c3a8 {2}0\/0 ready {2}24h\n└─ ✓ EndpointSlice\/web-abc\n/)
  t.match(all, /\nnot followed: Secret, Event\n$/)
})

t.test('the command that undoes a rollout is made of the name of the row, and of no other', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const tree = async (row: Partial<Row>) => {
    const { said, code } = run('tree', '-n', 'shop')
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    const z = { ...web.z, undo: true as const }
    one.update({ seq: 1, at, rows: [{ ...web, c: 0, z, ...row }], pages: { '': page(['d1']) }, state: live })
    t.equal(await code, 0, said.stderr)
    return said.stdout
  }
  t.match(await tree({}), /\n {4}or undo: kubectl -n shop rollout undo deployment\/web\n/)
  t.match(await tree({ k: 'apps/DaemonSet' }), 'rollout undo daemonset/web')
  const slow = { h: ['Progressing', 'InProgress', 'Progressing'] } as const
  const undone = (seconds: number) => ({ ...web.z, undo: true as const, since: at - seconds * 1000 }) as Cause
  t.match(await tree({ ...slow, z: undone(61) }), 'rollout undo')
  t.notMatch(await tree({ ...slow, z: undone(30) }), 'rollout undo', 'it may well get there')
  t.notMatch(await tree({ k: 'Pod' }), 'rollout')
  t.notMatch(await tree({ n: 'web; rm -rf ~' }), 'rollout undo')
  t.notMatch(await tree({ ns: '-A' }), 'rollout undo')
})

t.test('what is well itself, with something below that is not, says both in one place', async (t) => {
  const said = (v: ArgoWord, w?: ArgoWord) => {
    const model = new ShownView()
    const row: Row = { u: 'd', k: 'Service', ns: 'shop', n: 'web', h: ['', 'Current', v], ...(w ? { w } : {}) }
    model.apply({ seq: 1, at, rows: [row], pages: { '': page(['d']) } })
    return treeText(model, { now: at, columns: 200, paint: new Paint(false), isVerbose: false })
  }
  t.equal(said('Healthy', 'Degraded'), '✓ healthy, ✗ degraded below  shop/Service/web\n')
  t.equal(said('Progressing', 'Degraded'), '◐ progressing, ✗ degraded below  shop/Service/web\n')
  t.equal(said('', 'Degraded'), '· ✗ degraded below  shop/Service/web\n')
  t.equal(said('Degraded', 'Healthy'), '✗ degraded  shop/Service/web\n', 'what is better below says nothing')
  t.equal(said('Degraded', 'Degraded'), '✗ degraded  shop/Service/web\n')
  t.equal(said('Healthy', 'Suspended'), '✓ shop/Service/web\n')
})

t.test('what is asked for by its name says what it is linked with, and no other row does', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const tree = async (...argv: string[]) => {
    const { said, code } = run('tree', '-n', 'shop', ...argv)
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    const claims = Array.from(
      { length: 7 },
      (_, i) => ['mounts', `c${i}`, 'PersistentVolumeClaim', 'shop', `c${i}`] as const,
    )
    const l = [...claims, ['runs on', 'n', 'Node', '', 'n1'], ['reads', '', 'Secret', 'bank', 'key']] as Row['l'] & {}
    const pod: Row = { u: 'p', k: 'Pod', ns: 'shop', n: 'web-1', h: ['', 'Current', 'Healthy'], l }
    one.update({ seq: 1, at, rows: [pod], pages: { '': page(['p']) }, state: live })
    t.equal(await code, 0, said.stderr)
    return said.stdout.replaceAll(/\n {4,}/g, ' ')
  }
  const links = [0, 1, 2, 3, 4].map((i) => `PersistentVolumeClaim/c${i}`).join(', ')
  const line = `mounts ${links} and 2 more; runs on Node/n1; reads bank/Secret/key (absent or hidden)`
  t.equal(await tree('pod/web-1'), `✓ Pod/web-1 ${line}\n`)
  t.equal(await tree(), '✓ Pod/web-1\n')
})

t.test('a cause says once what it says', async (t) => {
  const said = (z: Partial<Cause>, row: Partial<Row> = {}) => {
    const cause = { kind: 'Pod', namespace: 'shop', name: 'web-1', id: 'p', reason: 'Failed', text: '', next: '', ...z }
    const shown: Row = { u: 'd', k: 'apps/Deployment', ns: 'shop', n: 'web', z: cause, ...row }
    const layout = { now: at, columns: 200, paint: new Paint(false), isVerbose: false }
    return causeLines(shown, layout, '').join('\n')
  }
  const last = at - 3_600_000
  t.equal(
    said({ reason: 'Unschedulable', text: '3 Insufficient memory.', last }),
    'Pod web-1: Unschedulable: 3 Insufficient memory, last seen 60m ago',
  )
  t.equal(said({ reason: 'Terminating', text: 'Terminating' }), 'Pod web-1: Terminating')
  t.equal(said({ reason: 'OOMKilled', text: 'exit code 137 (OOMKilled)' }), 'Pod web-1: OOMKilled: exit code 137')
  t.equal(
    said({ reason: 'CrashLoopBackOff', text: 'exit code 137 (signal 9)' }),
    'Pod web-1: CrashLoopBackOff: exit code 137 (signal 9)',
  )
  const node = { kind: 'Node', namespace: '', name: 'n1', reason: 'NodeUnreachable', text: 'node n1: no status.' }
  t.equal(said({ ...node, count: 2 }), 'Node n1 (2 Pods): NodeUnreachable: no status')
  t.equal(said(node, { k: 'Node', ns: '', n: 'n1' }), 'NodeUnreachable: no status')
  t.equal(said({ count: 3, text: 'x' }), '3 Pods, e.g. web-1: Failed: x')
})

t.test('a list has ready, reason, since and culprit; the sign says the verdict', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const list = async (...argv: string[]) => {
    const { said, code } = run('get', ...argv)
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    one.update({ seq: 1, at, rows: [web, claim], pages: { '': page(['d1', 'c1']) }, state: live })
    t.equal(await code, 0)
    return said.stdout
  }
  t.equal(
    await list('deploy,pvc', '-n', 'shop'),
    [
      '  NAME                        READY  REASON               SINCE  AGE  CULPRIT                       FACTS\n',
      '✗ Deployment/web              1/3    OOMKilled            4m     24h  2 Pods, e.g. web-6d4b9-x7k2p\n',
      '✗ PersistentVolumeClaim/data         StorageClassMissing  ≥4m\n',
    ].join(''),
  )
  t.match(await list('deploy', '-A'), /^ {2}NAMESPACE {2}NAME {2}READY/)
  t.match(
    await list('deploy,pvc', '-o', 'wide'),
    /VERDICT +ARGO +KSTATUS +WHY\n.*Degraded +Progressing +InProgress +container app: exit code/,
  )
  const yaml = await list('deploy,pvc', '-o', 'yaml')
  t.match(yaml, /^apiVersion: "kas\/v1"\nkind: "ObjectList"\nagent: 42\nstate: "live"\n/)
  t.match(yaml, /reason: "OOMKilled"\n/)
})

t.test('a terminal wraps no line: what it is told fits it, and what is long is broken between words', async (t) => {
  const { viewer, runWith } = await startViewsServer(t)
  for (const columns of [80, 200]) {
    const { said, code } = runWith({ terminal: { columns, rows: 24 }, env: { NO_COLOR: '1' } }, 'tree', '-n', 'shop')
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    one.update({ seq: 1, at, rows, pages, state: live })
    t.equal(await code, 0)
    const lines = said.stdout.split('\n')
    t.ok(
      lines.every((line) => line.length <= columns),
      said.stdout,
    )
    t.ok(lines.some((line) => line.includes(next)))
    t.match(said.stdout.replaceAll(/\s+/g, ' '), `OOMKilled: ${bareText}, last seen 40s ago`)
  }
})

t.test('lines are cut where they would be wrapped, colours left as they are', async (t) => {
  t.equal(cut('abc', 3), 'abc')
  t.equal(cut('abcd', 3), 'ab…')
  t.equal(cut('\u001b[31mabcd\u001b[0m', 3), '\u001b[31mab…\u001b[0m')
  t.equal(cut('語語語', 4), '語…')
  t.equal(cut('\u001b[31mab\u001b[0mcd', 3), '\u001b[31mab\u001b[0m…')
  t.strictSame(folded('one two three four', 24, '  '), ['  one two three four'])
  t.strictSame(folded('one two three four five', 24, '  '), ['  one two three four', '    five'])
  t.strictSame(folded('', 24, '  '), [])
})
