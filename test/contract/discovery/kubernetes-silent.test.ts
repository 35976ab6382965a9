import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { KubernetesDiscovery } from '../../../src/membership/discovery/kubernetes/kubernetes-source.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { quick } from './kubernetes-ground.ts'

/** An address that accepts connections and sends nothing, not even TLS, like a node whose API server hangs. */
async function begin(t: Test) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    socket.resume()
  })
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const config = JSON.parse(kubeconfigText({ server: url, caFile: '', user: { token: 'secret-token' } }))
  delete config.clusters[0].cluster['certificate-authority']
  const kubeconfig = `${t.testdir({ kubeconfig: JSON.stringify(config) })}/kubeconfig`
  const { log, lines } = capturedLog()
  const source = new KubernetesDiscovery(
    { log, clock: systemClock, random: () => 0.5 },
    { ...quick, services: ['kas'], kubeconfig, requestTimeoutMs: 100 },
  )
  t.teardown(() => source.stop())
  return { source, server, sockets, lines }
}

t.test('it starts in time, tries again, and leaves no connection', async (t) => {
  const { source, server, sockets, lines } = await begin(t)
  let connections = 0
  server.on('connection', () => connections++)
  await source.start()
  t.strictSame(source.current(), { addresses: [], stale: false, answered: false, error: 'no answer within 100 ms' })
  await eventually(() => {
    if (connections < 5) throw new Error(`${connections} connections`)
  })
  t.ok(sockets.size <= 2, `${sockets.size} of ${connections} connections are open`)
  await source.stop()
  await eventually(() => {
    if (sockets.size > 0) throw new Error(`${sockets.size} connections are open`)
  })
  t.notMatch(JSON.stringify(lines), /secret-token/)
})

t.test('it stops while it connects for the first time', async (t) => {
  const { source, server, sockets } = await begin(t)
  const connected = once(server, 'connection')
  const started = source.start()
  await connected
  await source.stop()
  await started
  await eventually(() => {
    if (sockets.size > 0) throw new Error(`${sockets.size} connections are open`)
  })
})
