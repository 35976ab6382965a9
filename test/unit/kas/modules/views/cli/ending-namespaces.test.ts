import t, { type Test } from 'tap'
import type { Cause, Row } from '../../../../../../src/proto/views-json.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { startViewsServer, type Viewer } from './views-server.ts'

/** A Namespace is cluster-scoped, so a tree of one namespace shows only the objects inside it. */

const live = { is: 'live', since: 0 } as const
const cause: Cause = {
  kind: 'kafka.strimzi.io/KafkaTopic',
  namespace: 'legacy',
  name: 'orders',
  id: 't',
  reason: 'DeletionBlocked',
  text: 'waits for finalizers: strimzi.io/topic-operator',
  next: '',
}
const namespace = (n: string, ...f: string[]): Row => ({
  u: `ns-${n}`,
  k: 'Namespace',
  n,
  h: ['Progressing', 'Terminating', 'Degraded'],
  f,
  z: cause,
})
const topic = (...f: string[]): Row => ({
  u: 't',
  k: 'kafka.strimzi.io/KafkaTopic',
  ns: 'legacy',
  n: 'orders',
  h: ['Progressing', 'Terminating', 'Degraded'],
  f,
  z: cause,
})

async function start(t: Test, listed: readonly Row[] | undefined) {
  const answer = (path: string) =>
    path.startsWith('/views?') && listed
      ? { status: 200, body: JSON.stringify({ seq: 1, at: 0, rows: listed }) }
      : { status: 403, body: '' }
  return await startViewsServer(t, { answer })
}
const say = (one: Viewer, seq: number, ...rows: Row[]) =>
  one.update({ seq, rows, pages: { '': { order: rows.map(({ u }) => u), counts: {}, more: 0 } }, state: live })

async function tree(t: Test, listed: readonly Row[] | undefined, rows: readonly Row[], ...more: string[]) {
  const { viewer, run, asked } = await start(t, listed)
  const { said, code } = run('tree', '-n', 'legacy', ...more)
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  say(one, 1, ...rows)
  t.equal(await code, 0, said.stderr)
  return { ...said, asked }
}

t.test('a namespace that is being deleted stands above what is left in it', async (t) => {
  const listed = [namespace('legacy-2', 'Terminating'), namespace('legacy', 'Terminating')]
  const { stdout, asked } = await tree(t, listed, [topic('Terminating')])
  t.equal(
    stdout,
    [
      '✗ degraded  Namespace/legacy  Terminating\n',
      '    kafka.strimzi.io/KafkaTopic legacy/orders: DeletionBlocked: waits for finalizers: strimzi.io/topic-operator\n',
      '✗ degraded  kafka.strimzi.io/KafkaTopic/orders  Terminating\n',
      '    DeletionBlocked: waits for finalizers: strimzi.io/topic-operator\n',
    ].join(''),
  )
  t.strictSame(asked, ['/views?view=list&kind=Namespace&text=legacy'], 'as the caller, once')
  t.match((await tree(t, listed, [])).stdout, /^✗ degraded {2}Namespace\/legacy {2}Terminating\n/, 'nothing is left')
})

t.test('its other causes are named, of what is in it', async (t) => {
  const listed = [{ ...namespace('legacy', 'Terminating'), z: { ...cause, others: 1 } }]
  const other = { ...topic('Terminating'), u: 't2', n: 'payments', z: { ...cause, name: 'payments' } }
  const elsewhere = { ...other, u: 't3', z: { ...cause, namespace: 'shop' } }
  const { stdout } = await tree(t, listed, [topic('Terminating'), other, elsewhere])
  t.match(stdout, /\n {4}and 1 other cause: kafka.strimzi.io\/KafkaTopic legacy\/payments: DeletionBlocked\n/)
})

t.test(
  'one that is not, or that the caller may not list, is not shown, and of what is well nobody is asked',
  async (t) => {
    t.match((await tree(t, [namespace('legacy', 'Active')], [topic('Terminating')])).stdout, /^✗ degraded {2}kafka/)
    t.match((await tree(t, undefined, [topic('Terminating')])).stdout, /^✗ degraded {2}kafka/)
    const named = [namespace('legacy', 'Terminating')]
    const { z: _, ...rest } = topic()
    const well: Row = { ...rest, h: ['Healthy', 'Current', 'Healthy'] }
    t.strictSame((await tree(t, named, [well])).asked, [])
    t.strictSame((await tree(t, named, [topic('Terminating')], '-o', 'json')).asked, [])
  },
)

t.test('while somebody watches it is asked about anew after a while, and goes', async (t) => {
  const listed = [namespace('legacy', 'Terminating')]
  const { viewer, runWith, asked } = await start(t, listed)
  const clock = new ManualClock()
  const { said, code, interrupt } = runWith({ clock }, 'tree', '-n', 'legacy', '--watch')
  const until = async (holds: () => boolean) => {
    while (!holds()) await new Promise(setImmediate)
  }
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  say(one, 1, topic('Terminating'))
  await until(() => said.stdout.includes('Namespace/legacy'))
  say(one, 2, topic('Terminating', 'more'))
  await until(() => said.stdout.includes('more'))
  t.equal(asked.length, 1, 'not at each change')
  listed.pop()
  clock.advance(5000)
  say(one, 3, topic('Terminating', 'still'))
  await until(() => asked.length === 2)
  await until(() => (said.stdout.split('\n\n').at(-1) ?? '').startsWith('✗ degraded  kafka'))
  interrupt()
  t.equal(await code, 130)
})

t.test('where deletions are refused nothing is Terminating but the namespace', async (t) => {
  const listed = [namespace('legacy', 'Terminating')]
  const orphan: Row = { u: 'rs', k: 'apps/ReplicaSet', ns: 'legacy', n: 'web-1', h: ['', 'Current', ''] }
  for (const row of [topic(), orphan]) {
    t.match((await tree(t, listed, [row])).stdout, /^✗ degraded {2}Namespace\/legacy {2}Terminating\n/)
  }
})
