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
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { bearerOf } from '../support/stack-directory.ts'
import { type CallResult, SteadyCalls } from '../support/steady-calls.ts'

/** No call that can be repeated without harm fails because of what happens to the API server, its credentials or a pod. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const configMaps = '/api/v1/namespaces/default/configmaps'

t.test('calls while the cluster changes', { skip, timeout: 240_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'api', goawayChance: 0.02 })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  await controlPlane.admin.create(configMaps, { metadata: { name: 'one' }, data: { text: 'x'.repeat(700) } })
  const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig })
  const agentk = await stack.startAgentk()
  await stack.connected()
  const url = `${stack.kubernetesUrl}${configMaps}/one`
  const options = { url, ca: await readFile(stack.caFile, 'utf8'), token: bearerOf('agent') }

  type Change = (calls: SteadyCalls) => Promise<unknown>
  const during = async (change: Change, more: { inFlight?: number } = {}): Promise<CallResult[]> => {
    const calls = new SteadyCalls({ ...options, ...more })
    calls.start()
    await calls.more(20)
    await change(calls)
    await calls.more(20)
    return calls.stop()
  }

  await t.test('an API server that sends GOAWAY', async (t) => {
    t.ok(await seesGoaway(controlPlane), 'a client of HTTP/2 is told to go away')
    const results = await during((calls) => calls.more(1_000))
    noFailures(t, results)
    const via = String(results[0]?.headers.via)
    t.match(via, /^1\.1 gitlab-agent\//, 'agentk speaks HTTP/1.1, where GOAWAY does not exist')
  })

  await t.test('an API server that restarts', async (t) => {
    noFailures(t, await during(() => controlPlane.restartApiServer()))
  })

  await t.test('an API server that is killed and comes back', async (t) => {
    noFailures(t, await during(() => controlPlane.restartApiServer({ abruptly: true })))
  })

  await t.test('a certificate that is rotated, without and with a restart', async (t) => {
    noFailures(t, await during(() => controlPlane.rotateServingCertificate()))
    noFailures(t, await during((calls) => calls.more(200), { inFlight: 16 })) // more than the connections of before
    noFailures(t, await during(() => controlPlane.restartApiServer({ certificates: 'rotate' })))
  })

  await t.test('a service account token that expires', async (t) => {
    agentk.signal('SIGTERM')
    await agentk.ends()
    const account = await createServiceAccount(controlPlane.admin, { namespace: 'default', name: 'agentk' })
    const tokenFile = join(processes.folder, 'token')
    const first = controlPlane.signToken({ account, lifeMs: 20_000 })
    const ca = await readFile(controlPlane.caFile, 'utf8')
    const direct = new ApiClient({ server: controlPlane.server, ca, token: first })
    t.teardown(() => direct.close())
    const { server, caFile } = controlPlane
    const kubeconfig = join(processes.folder, 'token.kubeconfig')
    await writeFile(kubeconfig, kubeconfigText({ server, caFile, user: { tokenFile } }))
    await writeFile(tokenFile, first, { mode: 0o600 })
    await stack.startAgentk({ kubeconfig })
    await stack.connected()
    const results = await during(async (calls) => {
      // as a kubelet does, some time before the end
      await writeFile(tokenFile, controlPlane.signToken({ account, lifeMs: 3_600_000 }))
      const expired = async () => {
        await calls.more(20)
        if ((await direct.request(configMaps)).status !== 401) throw new Error('the first token is still taken')
      }
      await eventually(expired, { timeoutMs: 40_000 }) // 20 s, and 10 s for which the API server remembers a token
    })
    noFailures(t, results)
  })
})

function noFailures(t: Test, results: readonly CallResult[]): void {
  const failed = results.filter(({ status }) => status !== 200)
  t.same(failed.slice(0, 3), [], `${failed.length} of ${results.length} calls failed`)
  t.comment(`${results.length} calls, the longest took ${Math.round(Math.max(...results.map((r) => r.tookMs)))} ms`)
}

/** Whether GOAWAY comes within 2,000 requests on one connection. */
async function seesGoaway(controlPlane: ControlPlane): Promise<boolean> {
  const [ca, cert, key] = await Promise.all(
    [controlPlane.caFile, controlPlane.adminCertificateFile, controlPlane.adminKeyFile].map((file) => readFile(file)),
  )
  const session = connect(controlPlane.server, { ca, cert, key } as Parameters<typeof connect>[1])
  session.on('error', () => undefined) // the session's end is what is looked for
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
