import { once } from 'node:events'
import { request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t, { type Test } from 'tap'
import { Readiness } from '../../../src/kas/observability/readiness.ts'
import { createRouterMetrics } from '../../../src/kas/router/router-metrics.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { createBuildMetrics, createRegistry } from '../../../src/lib/metrics.ts'
import { type OpsOptions, OpsServer } from '../../../src/lib/ops-server.ts'

t.setTimeout(30_000)
const product = 'gitlab-kas/v1.2.3/abc'

async function serve(t: Test, options: Partial<OpsOptions> = {}) {
  const readiness = new Readiness()
  const register = createRegistry()
  const log = createLogger({ level: 'silent' })
  const server = new OpsServer(
    { register, readiness, log },
    { listen: { host: '127.0.0.1', port: 0 }, product, ...options },
  )
  t.teardown(() => server.stop())
  await server.start()
  const { port } = server.address as AddressInfo
  return { server, readiness, register, port, base: `http://127.0.0.1:${port}` }
}

async function get(url: string, init?: RequestInit) {
  const response = await fetch(url, { ...init, headers: { connection: 'close' } })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

// wire: health.liveness
t.test('liveness is always good', async (t) => {
  const { base } = await serve(t)
  t.match(await get(`${base}/liveness`), { status: 200, text: '' })
})

// wire: health.readiness
t.test('readiness names the first toggle that is off', async (t) => {
  const { base, readiness } = await serve(t)
  t.match(await get(`${base}/readiness`), { status: 200, text: '' }, 'nothing to wait for')
  const agents = readiness.toggle('agentServer')
  const api = readiness.toggle('apiServer')
  t.match(await get(`${base}/readiness`), { status: 500, text: 'agentServer: not ready yet' })
  agents(undefined)
  t.match(await get(`${base}/readiness?verbose`), { status: 500, text: 'apiServer: not ready yet' })
  api(undefined)
  t.match(await get(`${base}/readiness`), { status: 200, text: '' })
  api('shutting down')
  t.match(await get(`${base}/readiness`), { status: 500, text: 'apiServer: shutting down' })
})

// wire: metric.process, metric.gitlab_build_info
t.test('metrics are in the text form of Prometheus', async (t) => {
  const { base, register } = await serve(t)
  createBuildMetrics(register, { version: '1.2.3', commit: 'abc' })
  createRouterMetrics(register).timedOut()
  const { status, text, headers } = await get(`${base}/metrics`)
  t.equal(status, 200)
  t.match(headers.get('content-type'), /^text\/plain; version=0\.0\.4/)
  t.match(text, /^gitlab_build_info\{version="v1\.2\.3".*\} 1$/m)
  t.match(text, /^k8s_api_proxy_routing_timeout_total 1$/m)
  t.match(text, /^process_resident_memory_bytes \d+$/m)
})

// wire: health.server
t.test('every answer names the server, other paths and methods are refused', async (t) => {
  const { base } = await serve(t)
  for (const path of ['/metrics', '/liveness', '/readiness', '/']) {
    t.equal((await get(base + path)).headers.get('server'), product, path)
  }
  t.equal((await get(`${base}/`)).status, 404)
  t.equal((await get(`${base}/metrics/`)).status, 404)
  t.match(await get(`${base}/liveness`, { method: 'POST', body: 'x' }), { status: 405 })
  t.match(await get(`${base}/liveness`, { method: 'HEAD' }), { status: 200, text: '' })
})

// wire: health.paths
t.test('the paths are the configured ones', async (t) => {
  const { base } = await serve(t, { metricsPath: '/m', livenessPath: '/l', readinessPath: '/r' })
  for (const path of ['/m', '/l', '/r']) t.equal((await get(base + path)).status, 200, path)
  t.equal((await get(`${base}/metrics`)).status, 404)
})

t.test('a collector that fails costs its scrape only', async (t) => {
  const { base, register } = await serve(t)
  const failing = { name: 'bad', get: () => Promise.reject(new Error('broken')), reset: () => undefined }
  register.registerMetric(failing as never)
  t.match(await get(`${base}/metrics`), { status: 500, text: 'Internal error' })
  t.match(await get(`${base}/liveness`), { status: 200 })
})

// wire: health.read
t.test('a head that does not come in time is cut', async (t) => {
  const { port } = await serve(t, { readTimeoutMs: 100 })
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  socket.write('GET /liveness HTTP/1.1\r\nHost: x\r\n')
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  await once(socket, 'close')
  t.match(Buffer.concat(chunks).toString(), /^HTTP\/1\.1 408 /)
})

// wire: health.idle
t.test('an idle connection ends after its time', async (t) => {
  const { port } = await serve(t, { idleTimeoutMs: 100 })
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  socket.resume()
  socket.write('GET /liveness HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(socket, 'close')
  t.pass('closed by the server')
})

t.test('stop waits for patience, then cuts', async (t) => {
  const { server, port } = await serve(t)
  const idle = request({ port, host: '127.0.0.1', path: '/liveness', headers: { connection: 'keep-alive' } })
  idle.on('error', () => undefined)
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.write('GET /')
  await server.stop(AbortSignal.abort())
  await server.stop()
  await t.rejects(get(`http://127.0.0.1:${port}/liveness`))
  idle.destroy()
  socket.destroy()
})

t.test('a port that is taken is an error that names it', async (t) => {
  const { port } = await serve(t)
  await t.rejects(serve(t, { listen: { host: '127.0.0.1', port } }), {
    code: 'EADDRINUSE',
    message: new RegExp(`${port}`),
  })
})

t.test(
  'who asks for the metrics many times at once gets one text, and is cut where it does not wait for answers',
  async (t) => {
    const { register, port, base } = await serve(t)
    createBuildMetrics(register, { version: '1.2.3', commit: 'abc' })
    const collect = register.metrics.bind(register)
    let collected = 0
    register.metrics = () => {
      collected++
      return collect()
    }
    const many = await Promise.all(Array.from({ length: 50 }, () => get(`${base}/metrics`)))
    t.equal(many.filter(({ status, text }) => status === 200 && text.includes('gitlab_build_info')).length, 50)
    collected = 0
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.on('error', () => undefined) // the connection may be reset
    const closed = once(socket, 'close')
    socket.resume()
    socket.write('GET /metrics HTTP/1.1\r\nHost: kas\r\n\r\n'.repeat(1000))
    await closed
    t.ok(collected <= 1, `${collected} texts were made of 1000 requests`)
    t.equal((await get(`${base}/liveness`)).status, 200)
  },
)
