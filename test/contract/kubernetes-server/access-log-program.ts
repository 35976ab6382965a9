/**
 * A program for tests. It serves 8154 with its access log on stdout, calls itself, and reports the durations on stderr.
 */
import { Agent, request } from 'node:http'
import { Registry } from 'prom-client'
import { AccessLog } from '../../../src/kas/access-log/access-log.ts'
import { backgroundClock } from '../../../src/lib/clock.ts'
import { standardSink } from '../../../src/lib/line-sinks.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { clusterForward, echo } from './fake-cluster.ts'
import { startServer } from './start-server.ts'

const calls = Number(process.argv[2])
const accessLog = new AccessLog(
  {
    sink: standardSink(process.stdout),
    clock: backgroundClock,
    register: new Registry(),
    log: createLogger({ level: 'silent' }),
  },
  { entry: 'kas-0', execCommand: 'program', keepsRecent: false },
)
const { server, port } = await startServer(clusterForward(echo), {}, undefined, { accessLog })
const agent = new Agent({ keepAlive: true, maxSockets: 1 })
const took: number[] = []
for (let i = 0; i < calls; i++) {
  const began = performance.now()
  await new Promise<void>((resolve, reject) => {
    const path = `/k8s-proxy/api/v1/namespaces/web/pods/${i}`
    const headers = { authorization: `Bearer pat:42:${i % 2 ? 'as-user' : 'good'}` }
    const asked = request({ port, path, method: 'DELETE', headers, agent }, (response) =>
      response.resume().on('end', resolve),
    )
    asked.on('error', reject).end()
  })
  took.push(performance.now() - began)
}
agent.destroy()
took.sort((one, other) => one - other)
process.stderr.write(`${JSON.stringify({ p50: took[Math.floor(calls / 2)], p99: took[Math.floor(calls * 0.99)] })}\n`)
process.stdin.once('data', async () => {
  await server.stop(AbortSignal.abort())
  await accessLog.stop()
  process.exit()
})
