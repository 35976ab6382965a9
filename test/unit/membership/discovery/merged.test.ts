import t from 'tap'
import { MergedDiscovery } from '../../../../src/membership/discovery/merged.ts'
import { FakeSource } from './fake-source.ts'

t.test('without a source this replica is alone, and knows it', async (t) => {
  const merged = new MergedDiscovery({ sources: [] })
  await merged.start()
  t.strictSame(merged.current(), { addresses: [], stale: false, answered: true })
  await merged.stop()
})

t.test('addresses are put together, states kept apart', async (t) => {
  const [one, two] = [new FakeSource('dns'), new FakeSource('static')]
  const merged = new MergedDiscovery({ sources: [one, two] })
  await merged.start()
  let calls = 0
  const off = merged.onChange(() => calls++)

  one.become({ addresses: ['10.0.0.1:1', '10.0.0.2:1'], stale: false, answered: true })
  t.match(merged.current(), { addresses: ['10.0.0.1:1', '10.0.0.2:1'], stale: false, answered: false })
  two.become({ addresses: ['10.0.0.0:1', '10.0.0.2:1'], stale: false, answered: true })
  const all = ['10.0.0.0:1', '10.0.0.1:1', '10.0.0.2:1']
  t.strictSame(merged.current(), { addresses: all, stale: false, answered: true })
  one.become({ ...one.current(), stale: true, error: 'A: ETIMEOUT' })
  t.strictSame(merged.current(), { addresses: all, stale: true, answered: true, error: 'dns: A: ETIMEOUT' })
  two.become({ ...two.current(), stale: true, error: 'gone' })
  t.equal(merged.current().error, 'dns: A: ETIMEOUT; static: gone')
  t.strictSame(merged.sources, [one, two])

  t.equal(calls, 4)
  off()
  one.become({ addresses: [], stale: false, answered: true })
  t.equal(calls, 4)
  await merged.stop()
  t.strictSame(
    [one.calls, two.calls],
    [
      ['start', 'stop'],
      ['start', 'stop'],
    ],
  )
})

t.test('a source that cannot start or stop keeps no other from stopping', async (t) => {
  const [one, two, three] = [new FakeSource('one'), new FakeSource('two'), new FakeSource('three')]
  one.failure = new Error('broken')
  const merged = new MergedDiscovery({ sources: [one, two, three] })
  await t.rejects(merged.start(), { message: 'broken' })
  t.strictSame(two.calls, ['start', 'stop'])
  t.strictSame(three.calls, ['start', 'stop'])
})
