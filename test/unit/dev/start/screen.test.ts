import t from 'tap'
import { linesToTry, screenOf } from '../../../../dev/start/screen.ts'

const ports = { agents: 8250, kubernetes: 8254, agentkOps: 8259, replicas: [] }
const table = ['replica  is', 'kas-0    ready']
const cluster = { kind: 'double', description: 'an embedded API double' } as const
const chosen = { ports, base: 8250, taken: 8154 }
const inputs = { folder: '.run/2', number: 2, chosen, cluster, table, proxied: false }

t.test('the screen says what runs where and which port was taken', async (t) => {
  const screen = screenOf(inputs)
  for (const text of [
    'wss://127.0.0.1:8250',
    'https://127.0.0.1:8254',
    '.run/2/: kas-0.log',
    '  kas-0    ready\n',
    '8154 was taken',
    '--port-base',
  ]) {
    t.ok(screen.includes(text), text)
  }
  for (const line of linesToTry(inputs)) t.ok(screen.includes(`\n  ${line}\n`), line)
})

t.test('the lines name this start, go round a proxy, and watch what the cluster has', async (t) => {
  t.match(linesToTry(inputs)[0], /^KAS_RUN=2 npm run -s kubectl -- /)
  t.match(linesToTry(inputs)[1], /^npm run -s kas -- tree --kubeconfig /)
  t.match(linesToTry({ ...inputs, number: 1 })[0], /^npm run -s kubectl -- /)
  t.match(linesToTry(inputs)[3], 'pods/clock/log?follow=true')
  t.match(linesToTry({ ...inputs, cluster: { ...cluster, kind: 'real' } })[3], 'namespaces?watch=true')
  t.notMatch(linesToTry(inputs)[2], 'noproxy')
  t.match(linesToTry({ ...inputs, proxied: true })[2], "--noproxy '*'")
})
