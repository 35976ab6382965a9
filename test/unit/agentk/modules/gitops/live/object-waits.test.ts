import t from 'tap'
import type { ClusterKind } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import { ObjectWaits } from '../../../../../../src/agentk/modules/gitops/live/object-waits.ts'
import { Counter } from '../../../../../../src/lib/counter.ts'
import { ManualClock, settle } from '../../../../../support/manual-clock.ts'

const kind: ClusterKind = {
  group: '',
  version: 'v1',
  kind: 'ConfigMap',
  plural: 'configmaps',
  isNamespaced: true,
  isWritable: true,
  isListable: true,
}
const keyIn = (namespace: string) => ({ group: '', kind: 'ConfigMap', namespace, name: 'a' })
t.test('so many collections are watched, the others are polled: one question at a time', async (t) => {
  const clock = new ManualClock()
  const watched: string[] = []
  const asked: { path: string; answer: (status: number) => void }[] = []
  const client = {
    json: (_: string, path: string) =>
      new Promise<{ status: number; body: unknown }>((resolve) => {
        if (path.includes('?')) watched.push(path)
        else asked.push({ path, answer: (status) => resolve({ status, body: { metadata: { name: 'a' } } }) })
      }),
    send: () => new Promise<never>(() => undefined),
  }
  const watches = new Counter<string>({ max: 1 })
  const waits = new ObjectWaits({ client: client as never, clock, random: () => 0, watches }, { selector: 'a=b' })
  const left = new AbortController()
  const isThere = (object: unknown) => (object ? true : undefined)
  const one = waits.until(kind, keyIn('one'), isThere, left.signal)
  const two = waits.until(kind, keyIn('two'), isThere, left.signal)
  await settle()
  const of = (namespace: string) => asked.filter(({ path }) => path.includes(`/${namespace}/`))
  t.strictSame([of('one').length, of('two').length], [1, 1])
  clock.advance(5000)
  await settle()
  t.equal(of('two').length, 1, 'the last question has no answer')
  of('two')[0]?.answer(404)
  await settle()
  clock.advance(5000)
  await settle()
  t.strictSame([of('one').length, of('two').length], [1, 2])
  of('two')[1]?.answer(200)
  t.equal(await two, true)
  t.equal(watches.total, 1, 'one is watched')
  left.abort(new Error('left'))
  await t.rejects(one, /left/)
  t.equal(watches.total, 0, 'its place is free again')
  t.notOk(watched.some((path) => path.includes('/two/')))
})
