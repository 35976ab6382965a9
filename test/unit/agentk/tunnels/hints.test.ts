import t from 'tap'
import { readHints } from '../../../../src/agentk/tunnels/hints.ts'

t.test('all of it', async (t) => {
  const metadata = {
    'kas-replica': ['kas-0'],
    'kas-home': ['kas-1'],
    'kas-home-address': ['wss://kas-1.example.com'],
    'kas-standby': ['kas-2'],
    'kas-ping-interval-ms': ['5000'],
    other: ['x'],
  }
  t.strictSame(readHints(metadata), {
    replica: 'kas-0',
    home: { name: 'kas-1', address: 'wss://kas-1.example.com' },
    standby: { name: 'kas-2' },
    pingIntervalMs: 5000,
  })
})

t.test('a stock kas gives none', async (t) => {
  t.equal(readHints({}), undefined)
  t.equal(readHints({ server: ['kas'], date: ['today'] }), undefined)
})

t.test('what is no name, or no interval that agentk takes, is not there', async (t) => {
  for (const name of ['', '-x', 'a b', 'a\tb', 'a'.repeat(254), 'ä', 'a/b']) {
    t.strictSame(readHints({ 'kas-replica': ['kas-0'], 'kas-home': [name] }), { replica: 'kas-0' }, name)
  }
  for (const interval of ['', 'x', '0', '999', '55001', '-5000', 'NaN', 'Infinity']) {
    t.equal(readHints({ 'kas-ping-interval-ms': [interval] }), undefined, interval)
  }
  t.strictSame(readHints({ 'kas-ping-interval-ms': ['1000'] }), { pingIntervalMs: 1000 })
})
