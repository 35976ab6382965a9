import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:http2'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ApiClient } from '../../dev/control-plane/api-client.ts'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import { eventually } from '../support/eventually.ts'
import { httpsGet } from '../support/https-get.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { bearerOf } from '../support/stack-directory.ts'
import { SteadyCalls } from '../support/steady-calls.ts'
import { SteadyWatch } from '../support/steady-watch.ts'

/** No call that can be repeated without harm fails while the API server restarts or credentials change. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const configMaps = '/api/v1/namespaces/default/configmaps'

t.test('calls while the cluster changes', { skip, timeout: 240_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'api', goawayChance: 0.02 })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin, server, caFile } = controlPlane
  await admin.create(configMaps, { metadata: { name: 'one' }, data: { text: 'x'.repeat(700) } })
  const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig })
  const account = await createServiceAccount(admin, { namespace: 'default', name: 'agentk' })
  const token = bearerOf('agent')
  const ca = await readFile(stack.caFile, 'utf8')
  const url = `${stack.kubernetesUrl}${configMaps}`

  // the token's life begins here; it ends while the second test waits for its end
  const firstToken = controlPlane.signToken({ account, lifeMs: 20_000 })
  const tokenFile = join(processes.folder, 'token')
  /** writes in place, not by rename: the file is empty for a moment */
  const writeToken = (text: string) => writeFile(tokenFile, text, { mode: 0o600 })
  await writeToken(firstToken)
  const kubeconfig = join(processes.folder, 'token.kubeconfig')
  await writeFile(kubeconfig, kubeconfigText({ server, caFile, user: { tokenFile } }))
  const agentk = await stack.startAgentk({ kubeconfig })
  await stack.connected()

  let changes = 0
  /** Makes steady calls and a watch before, during and after `change`. @returns how often the watch began again */
  const during = async (t: Test, change: (calls: SteadyCalls) => Promise<unknown>, more = {}): Promise<number> => {
    const calls = new SteadyCalls({ url: `${url}/one`, ca, token, ...more })
    t.teardown(() => calls.stop())
    calls.start()
    const watch = await SteadyWatch.start(t, { url, ca, token })
    const names = ['before', 'after'].map((when) => `${when}-${changes}`) as [string, string]
    changes++
    await admin.create(configMaps, { metadata: { name: names[0] } })
    await watch.sees(names[0])
    await calls.more(20)
    await change(calls)
    await admin.create(configMaps, { metadata: { name: names[1] } })
    await watch.sees(names[1])
    await calls.more(20)
    const results = await calls.stop()
    t.same(calls.failed.slice(0, 3), [], `${calls.failed.length} of ${results.length} calls failed`)
    t.comment(`${results.length} calls, the longest took ${Math.round(Math.max(...results.map((r) => r.tookMs)))} ms`)
    t.same(watch.failures, [], 'no list failed, and no watch to begin')
    t.same(watch.seen.slice(-2), names, 'the watch saw both changes, each once')
    return watch.watches - 1
  }

  await t.test('an API server that sends GOAWAY', async (t) => {
    t.ok(await seesGoaway(controlPlane), 'a client of HTTP/2 is told to go away')
    t.equal(await during(t, (calls) => calls.more(300)), 0, 'the watch went on')
    const { headers } = await httpsGet(`${url}/one`, { ca, token })
    t.match(headers.via, /^1\.1 gitlab-agent\//, 'agentk speaks HTTP/1.1, where GOAWAY does not exist')
  })

  await t.test('a service account token that expires, replaced in time', async (t) => {
    const direct = new ApiClient({ server, ca: await readFile(caFile, 'utf8'), token: firstToken })
    t.teardown(() => direct.close())
    const watchesAnew = await during(t, async (calls) => {
      t.equal((await direct.request(configMaps)).status, 200, 'the first token is taken')
      await writeToken(controlPlane.signToken({ account, lifeMs: 3_600_000 }))
      await calls.more(200) // close to one another while the file changes
      calls.slowDown(100)
      const expired = async () => {
        await calls.more(20)
        if ((await direct.request(configMaps)).status !== 401) throw new Error('the first token is still taken')
      }
      await eventually(expired, { timeoutMs: 40_000 }) // 20 s of life, and 10 s for which the API server caches a token
    })
    t.equal(watchesAnew, 0, 'the watch went on')
  })

  await t.test('one that is replaced late: the first calls afterwards get through, all of them', async (t) => {
    await writeToken(controlPlane.signToken({ account, lifeMs: -60_000 }))
    const call = () => httpsGet(`${url}/one`, { ca, token })
    await eventually(async () => {
      if ((await call()).status !== 401) throw new Error('the token before is still sent')
    })
    await writeToken(controlPlane.signToken({ account, lifeMs: 3_600_000 }))
    const answers = await Promise.all(Array.from({ length: 20 }, call))
    t.same(
      answers.filter(({ status }) => status !== 200),
      [],
    )
    agentk.signal('SIGTERM')
    await agentk.ends()
    await stack.startAgentk() // the API server has looked up this account's rights before, so agentk starts at once
    await stack.connected()
  })

  await t.test('a serving certificate that is rotated', async (t) => {
    t.equal(await during(t, () => controlPlane.rotateServingCertificate()), 0, 'the watch went on')
    await during(t, (calls) => calls.more(200), { inFlight: 16 }) // more than there were connections before
  })

  await t.test('an API server that restarts, with another certificate', async (t) => {
    t.ok((await during(t, () => controlPlane.restartApiServer({ certificates: 'rotate' }))) > 0, 'the watch began anew')
  })

  await t.test('an API server that is killed and comes back', async (t) => {
    t.ok((await during(t, () => controlPlane.restartApiServer({ abruptly: true }))) > 0, 'the watch began anew')
  })
})

/** Returns true if GOAWAY comes within 2,000 requests on one connection. */
async function seesGoaway(controlPlane: ControlPlane): Promise<boolean> {
  const [ca, cert, key] = await Promise.all(
    [controlPlane.caFile, controlPlane.adminCertificateFile, controlPlane.adminKeyFile].map((file) => readFile(file)),
  )
  const session = connect(controlPlane.server, { ca, cert, key } as Parameters<typeof connect>[1])
  session.on('error', () => undefined) // the test waits for the session's end
  let told = false
  session.on('goaway', () => {
    told = true
  })
  for (let i = 0; i < 2_000 && !told && !session.closed; i++) {
    const stream = session.request({ ':path': `${configMaps}/one` })
    stream.on('error', () => undefined)
    stream.resume()
    await once(stream, 'close')
  }
  session.destroy()
  return told
}
