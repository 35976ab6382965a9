import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Agent, type RequestOptions, request } from 'node:https'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import WebSocket from 'ws'
import { ApiDouble } from '../../dev/api-double/api-double.ts'
import { Authority } from '../../dev/certificates.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'

const token = 'test-token'
const bearer = { Authorization: `Bearer ${token}` }
const runs = (kubectl: string) => spawnSync(kubectl, ['version', '--client']).status === 0
const hasKubectl = runs('kubectl')
/** the machine's kubectl, and the newer or older one beside the API server's programs */
const kubectls = {
  kubectl: 'kubectl',
  'kubectl of KUBEBUILDER_ASSETS': join(process.env.KUBEBUILDER_ASSETS ?? '/nonexistent', 'kubectl'),
}

async function startDouble(t: Test) {
  const authority = await Authority.create('api double test')
  const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const components = { serving, clientAuthority: authority.certificate }
  const double = new ApiDouble(components, { token, logLineEveryMs: 20 })
  t.teardown(() => double.stop())
  await double.start()
  const ca = authority.certificate
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())

  async function open(path: string, options: RequestOptions = {}, body?: string): Promise<IncomingMessage> {
    const asked = request(`${double.url}${path}`, { ca, agent, headers: bearer, ...options })
    asked.end(body)
    const [response] = (await once(asked, 'response')) as [IncomingMessage]
    t.teardown(() => response.destroy())
    response.on('error', () => undefined) // the test cuts it
    return response
  }
  async function call(path: string, options: RequestOptions = {}, body?: unknown) {
    const response = await open(path, options, body === undefined ? undefined : JSON.stringify(body))
    const text = (await response.toArray()).join('')
    return {
      status: response.statusCode,
      text,
      json:
        text !== '' && response.headers['content-type'] === 'application/json' && !path.includes('watch=true')
          ? JSON.parse(text)
          : undefined,
    }
  }
  return { double, authority, ca, open, call }
}

t.test('a token or a client certificate says who calls; impersonation is echoed', async (t) => {
  const { authority, call } = await startDouble(t)
  const whoami = (options: RequestOptions) =>
    call('/apis/authentication.k8s.io/v1/selfsubjectreviews', { method: 'POST', ...options })
  t.match(await call('/api/v1/pods', { headers: {} }), {
    status: 401,
    json: { kind: 'Status', reason: 'Unauthorized' },
  })
  t.match(await call('/api/v1/pods', { headers: { Authorization: 'Bearer wrong' } }), { status: 401 })
  t.match((await whoami({ headers: bearer })).json.status.userInfo, { username: 'kubernetes-admin' })
  const { certificate, key } = await authority.issueClient({ commonName: 'ada', organizations: ['g1', 'g2'] })
  const byCertificate = await whoami({ cert: certificate, key, headers: {} })
  t.same(byCertificate.json.status.userInfo, {
    username: 'ada',
    groups: ['g1', 'g2', 'system:authenticated'],
    extra: {},
  })
  const impersonation = {
    'Impersonate-User': 'bob',
    'Impersonate-Group': ['a', 'b'],
    'Impersonate-Uid': '7',
    'Impersonate-Extra-Agent.gitlab.com%2fid': '42',
  }
  t.same((await whoami({ headers: { ...bearer, ...impersonation } })).json.status.userInfo, {
    username: 'bob',
    uid: '7',
    groups: ['a', 'b', 'system:authenticated'],
    extra: { 'agent.gitlab.com/id': ['42'] },
  })
  t.match(await whoami({ headers: { ...bearer, 'Impersonate-Group': 'a' } }), { status: 400 })
})

t.test('a certificate of another authority is nobody', async (t) => {
  const { call } = await startDouble(t)
  const stranger = await (await Authority.create('stranger')).issueClient({ commonName: 'eve' })
  t.match(await call('/api/v1/pods', { cert: stranger.certificate, key: stranger.key, headers: {} }), { status: 401 })
})

t.test('bad requests are refused on that call only', async (t) => {
  const { call } = await startDouble(t)
  const post = { method: 'POST', headers: bearer }
  const configMaps = '/api/v1/namespaces/demo/configmaps'
  t.match(await call('/api/v1/secrets'), { status: 404 })
  t.match(await call('/api/v1/pods', post, {}), { status: 405 })
  t.match(await call(configMaps, post, 'no object'), { status: 400 })
  t.match(await call(configMaps, { ...post, headers: { ...bearer, 'Content-Type': 'application/yaml' } }, {}), {
    status: 415,
  })
  t.match(await call(configMaps, post, { metadata: { name: 'a' }, data: { x: 'y'.repeat(1_100_000) } }), {
    status: 413,
  })
  t.match(await call('/api/v1/namespaces/demo/pods/clock/log?tailLines=x'), { status: 400 })
  t.match(await call('/api/v1/namespaces/demo/pods/clock/exec'), { status: 400 })
  t.match(await call('/api/v1/pods?watch=true&resourceVersion=abc'), { status: 400 })
  t.match(await call('/api/v1/pods', { method: 'HEAD' }), { status: 200, text: /^$/ })
  t.match(await call('/readyz'), { status: 200, text: 'ok' })
})

t.test('a watch starts with what is there, or after a version, and ends with its time', async (t) => {
  const { open, call } = await startDouble(t)
  const path = '/api/v1/namespaces/demo/configmaps'
  const events = async (query: string) => {
    const response = await open(`${path}?watch=true&${query}`)
    return createInterface(response)[Symbol.asyncIterator]() as AsyncIterator<string>
  }
  const next = async (lines: AsyncIterator<string>) => {
    const { type, object } = JSON.parse((await lines.next()).value)
    return [type, object.metadata.name]
  }
  const { resourceVersion } = (await call(path)).json.metadata
  const fromState = await events('resourceVersion=0')
  const fromVersion = await events(`resourceVersion=${resourceVersion}`)
  const selected = await events(`resourceVersion=${resourceVersion}&labelSelector=on=yes`)
  const withBookmark = await events('sendInitialEvents=true&resourceVersionMatch=NotOlderThan')
  t.same(await next(fromState), ['ADDED', 'read-me'])
  t.same(await next(withBookmark), ['ADDED', 'read-me'])
  t.same(await next(withBookmark), ['BOOKMARK', ''])
  await call(path, { method: 'POST', headers: bearer }, { metadata: { name: 'a' } })
  const patch = (labels: unknown) => {
    const headers = { ...bearer, 'Content-Type': 'application/merge-patch+json' }
    return call(`${path}/a`, { method: 'PATCH', headers }, { metadata: { labels } })
  }
  await patch({ on: 'yes' })
  await patch({ on: 'no' })
  for (const lines of [fromState, fromVersion]) {
    for (const type of ['ADDED', 'MODIFIED', 'MODIFIED']) t.same(await next(lines), [type, 'a'])
  }
  t.same(await next(selected), ['ADDED', 'a'], 'it starts to match')
  t.same(await next(selected), ['DELETED', 'a'], 'it no longer matches')
  const bounded = await events('resourceVersion=0&timeoutSeconds=1')
  while (!(await bounded.next()).done);
  t.pass('ended by itself')
})

t.test('a version that is too old is gone', async (t) => {
  const { call } = await startDouble(t)
  t.match(await call('/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1'), { status: 200 })
  const patch = { method: 'PATCH', headers: { ...bearer, 'Content-Type': 'application/merge-patch+json' } }
  for (let i = 0; i < 1001; i++)
    await call('/api/v1/namespaces/demo/configmaps/read-me', patch, { data: { i: `${i}` } })
  t.match(await call('/api/v1/pods?watch=true&resourceVersion=1'), { status: 410, text: /"reason":"Expired"/ })
})

t.test('logs go on line by line', async (t) => {
  const { open, call } = await startDouble(t)
  const path = '/api/v1/namespaces/demo/pods/clock/log'
  const following = await open(`${path}?follow=true&tailLines=1`)
  const lines: string[] = []
  for await (const line of createInterface(following)) {
    lines.push(line)
    if (lines.length === 4) break
  }
  const numbers = lines.map((line) => Number(/line (\d+) /.exec(line)?.[1]))
  const start = numbers[0] ?? 0
  t.same(numbers, [start, start + 1, start + 2, start + 3], 'none is left out')
  t.equal((await call(`${path}?tailLines=2`)).text.trim().split('\n').length, 2)
  t.equal((await call(`${path}?limitBytes=5`)).text.length, 5)
  t.match((await call(`${path}?tailLines=1&timestamps=true`)).text, /^\d{4}-\d\d-\d\dT[\d:.]+Z \d\d:\d\d:\d\d clock/)
})

t.test('exec over WebSocket gives back stdin and tells the exit code', async (t) => {
  const { double, ca } = await startDouble(t)
  const exec = async (query: string, protocols = ['v5.channel.k8s.io']) => {
    const url = `${double.url.replace('https', 'wss')}/api/v1/namespaces/demo/pods/echo/exec?${query}`
    const socket = new WebSocket(url, protocols, { ca, headers: bearer })
    t.teardown(() => socket.terminate())
    const received: [channel: number, text: string][] = []
    socket.on('message', (data: Buffer) => received.push([data[0] as number, data.subarray(1).toString()]))
    const closed = new Promise<number>((resolve) => socket.once('close', resolve)) // after its error, if there is one
    await once(socket, 'open')
    return { socket, received, closed }
  }
  const cat = await exec('command=cat&stdin=true&stdout=true')
  const big = 'x'.repeat(300_000)
  for (const text of ['one', big]) cat.socket.send(Buffer.concat([Uint8Array.of(0), Buffer.from(text)]))
  cat.socket.send(Uint8Array.of(255, 0))
  t.equal(await cat.closed, 1000)
  t.equal(
    cat.received
      .filter(([channel]) => channel === 1)
      .map(([, text]) => text)
      .join(''),
    `one${big}`,
  )
  t.match(cat.received.at(-1), [3, /"Success"/])
  const failing = await exec('command=false&stdout=true', ['unknown', 'v4.channel.k8s.io'])
  t.equal(failing.socket.protocol, 'v4.channel.k8s.io')
  await failing.closed
  t.match(failing.received, [[3, /"NonZeroExitCode"/]])
  await t.rejects(exec('command=cat', ['unknown']), /400/)
})

t.test('port-forward over WebSocket names the port on both channels and gives back what is sent to it', async (t) => {
  const { double, ca } = await startDouble(t)
  const url = `${double.url.replace('https', 'wss')}/api/v1/namespaces/demo/pods/echo/portforward?ports=8080`
  const socket = new WebSocket(url, ['v4.channel.k8s.io'], { ca, headers: bearer })
  t.teardown(() => socket.terminate())
  const received: Buffer[] = []
  const message = () => once(socket, 'message')
  socket.on('message', (data: Buffer) => received.push(data))
  while (received.length < 2) await message()
  socket.send(Buffer.of(0, ...Buffer.from('ping')))
  while (received.length < 3) await message()
  t.same(received, [Buffer.of(0, 0x90, 0x1f), Buffer.of(1, 0x90, 0x1f), Buffer.of(0, ...Buffer.from('ping'))])
})

t.test('stop cuts what runs', async (t) => {
  const { double, open } = await startDouble(t)
  const watching = await open('/api/v1/pods?watch=true')
  watching.resume()
  const closed = new Promise((resolve) => watching.once('close', resolve)) // after its error
  await double.stop()
  await double.stop()
  await closed
  t.pass('the watch is over')
})

for (const [name, program] of Object.entries(kubectls))
  t.test(name, { skip: runs(program) ? false : `needs ${name}` }, async (t) => {
    const { double, ca } = await startDouble(t)
    const folder = t.testdir({ 'map.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: m }\ndata: { k: v }\n' })
    const kubeconfig = join(folder, 'kubeconfig')
    writeFileSync(kubeconfig, kubeconfigText({ server: double.url, authority: ca, user: { token }, namespace: 'demo' }))
    const env = { ...process.env, KUBECONFIG: kubeconfig, KUBECACHEDIR: join(folder, 'cache') }
    const kubectl = async (args: string, input = '') => {
      const child = spawn(program, args.split(' '), { env, cwd: folder })
      t.teardown(() => child.kill('SIGKILL'))
      child.stdin.on('error', () => undefined)
      child.stdin.end(input)
      const [out, err, [code]] = await Promise.all([
        child.stdout.toArray(),
        child.stderr.toArray(),
        once(child, 'close'),
      ])
      return { code, out: out.join(''), err: err.join('') }
    }
    t.match(await kubectl('get pods -A'), {
      code: 0,
      out: /NAMESPACE +NAME +READY[\s\S]*kube-system +embedded-api-double +1\/1 +Running/,
    })
    t.match(await kubectl('get ns,cm -o name'), { code: 0, out: 'configmap/read-me' })
    t.match(await kubectl('create configmap made --from-literal=x=y'), { code: 0, out: 'configmap/made created' })
    t.match(await kubectl('create configmap made --from-literal=x=y'), { code: 1, err: /already exists/ })
    t.match(await kubectl('get cm made -o yaml'), { code: 0, out: /data:\n {2}x: "y"/ })
    t.match(await kubectl('label cm made a=b'), { code: 0 })
    t.match(await kubectl('get cm -l a=b -o name'), { code: 0, out: /^configmap\/made\n$/ })
    t.match(await kubectl('apply -f map.yaml'), { code: 0, out: 'configmap/m created' })
    t.match(await kubectl('patch cm m -p {"data":{"k":"w"}}'), { code: 0, out: 'configmap/m patched' })
    t.match(await kubectl('apply -f map.yaml'), { code: 0, out: 'configmap/m configured' })
    t.match(await kubectl('delete cm made m'), { code: 0, out: /"made" deleted[\s\S]*"m" deleted/ })
    t.match(await kubectl('describe pod clock'), { code: 0, out: /Status: +Running/ })
    t.match(await kubectl('logs clock --tail=1'), { code: 0, out: /line \d+ of the embedded API double/ })
    t.match(await kubectl('exec echo -- echo a b'), { code: 0, out: /^a b\n$/ })
    t.match(await kubectl('exec -i echo -- cat', 'from here\n'), { code: 0, out: /^from here\n$/ })
    t.match(await kubectl('exec echo -- false'), { code: 1 })
    t.match(await kubectl('auth whoami -o jsonpath={.status.userInfo.username} --as ada'), { code: 0, out: /^ada$/ })
    t.match(await kubectl('auth can-i create cm'), { code: 0, out: /^yes/ })
  })

t.test('kubectl get -w and logs -f go on', { skip: hasKubectl ? false : 'needs kubectl' }, async (t) => {
  const { double, ca, call } = await startDouble(t)
  const kubeconfig = join(t.testdir(), 'kubeconfig')
  writeFileSync(kubeconfig, kubeconfigText({ server: double.url, authority: ca, user: { token }, namespace: 'demo' }))
  const follow = (args: string) => {
    const child = spawn('kubectl', args.split(' '), { env: { ...process.env, KUBECONFIG: kubeconfig } })
    t.teardown(() => child.kill('SIGKILL'))
    return createInterface(child.stdout)[Symbol.asyncIterator]() as AsyncIterator<string>
  }
  const watch = follow('get cm -w -o name')
  t.equal((await watch.next()).value, 'configmap/read-me')
  await call('/api/v1/namespaces/demo/configmaps', { method: 'POST', headers: bearer }, { metadata: { name: 'late' } })
  t.equal((await watch.next()).value, 'configmap/late')
  const logs = follow('logs -f clock --tail=1')
  for (let i = 0; i < 3; i++) t.match((await logs.next()).value, /clock: line/)
})
