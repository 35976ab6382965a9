import t from 'tap'
import {
  hasFeature,
  readAgentPod,
  readHints,
  writeAgentPod,
  writeFeatures,
  writeHints,
} from '../../../src/proto/placement.ts'

const none = {
  replica: undefined,
  home: undefined,
  standby: undefined,
  pingIntervalMs: undefined,
  reuse: false,
  features: [],
  leaving: false,
}

t.test('hints are read as they were written', async (t) => {
  const hints = {
    replica: 'kas-0',
    home: { name: 'kas-1', address: 'wss://kas-1.example.com' },
    standby: { name: 'kas-2', address: undefined },
    pingIntervalMs: 5000,
    reuse: true,
    features: ['views', 'gitops'],
    leaving: true,
  }
  const metadata = {
    'kas-replica': ['kas-0'],
    'kas-home': ['kas-1'],
    'kas-home-address': ['wss://kas-1.example.com'],
    'kas-standby': ['kas-2'],
    'kas-ping-interval-ms': ['5000'],
    'kas-features': ['reuse,views,gitops,leaving'],
  }
  t.strictSame(writeHints(hints), metadata)
  t.strictSame(readHints({ ...metadata, other: ['x'] }), hints)
  t.strictSame(writeHints({ pingIntervalMs: 5000 }), { 'kas-ping-interval-ms': ['5000'] })
})

t.test('a stock kas gives none', async (t) => {
  t.strictSame(readHints({}), none)
  t.strictSame(readHints({ server: ['kas'], date: ['today'] }), none)
})

t.test('what is no name, or no interval that agentk takes, is not there', async (t) => {
  for (const name of ['', '-x', 'a b', 'a\tb', 'a'.repeat(254), 'ä', 'a/b']) {
    const hints = readHints({ 'kas-replica': ['kas-0'], 'kas-home': [name] })
    t.strictSame(hints, { ...none, replica: 'kas-0' }, name)
  }
  for (const interval of ['', 'x', '0', '999', '55001', '-5000', 'NaN', 'Infinity']) {
    t.strictSame(readHints({ 'kas-ping-interval-ms': [interval] }), none, interval)
  }
  for (const interval of [1000, 55_000]) {
    t.equal(readHints({ 'kas-ping-interval-ms': [String(interval)] }).pingIntervalMs, interval)
  }
})

t.test('a pod is read as it was written', async (t) => {
  const metadata = { 'kas-features': ['home,ping,reuse'], 'kas-pod': ['pod-a'], 'kas-role': ['standby'] }
  const pod = { name: 'pod-a', role: 'standby' } as const
  t.strictSame(writeAgentPod(pod), metadata)
  t.strictSame(readAgentPod(metadata), pod)
  t.strictSame(readAgentPod({ ...metadata, 'kas-role': ['other'] }), { name: 'pod-a', role: 'home' })
  t.equal(readAgentPod({ ...metadata, 'kas-features': ['ping,reuse'] }), undefined, 'it does not move')
  t.equal(readAgentPod({}), undefined, 'a stock agent')
  for (const name of ['', 'A', 'a/b', 'a'.repeat(254)]) {
    t.equal(readAgentPod({ ...metadata, 'kas-pod': [name] }), undefined, name)
  }
})

t.test('a feature is one of the names', async (t) => {
  t.ok(hasFeature(writeFeatures('push-id'), 'push-id'))
  t.ok(hasFeature({ 'kas-features': ['later,reuse'] }, 'reuse'))
  t.notOk(hasFeature({ 'kas-features': ['reuses'] }, 'reuse'))
  t.notOk(hasFeature({}, 'reuse'))
})
