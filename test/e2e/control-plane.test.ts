import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { ApiClient } from '../../dev/control-plane/api-client.ts'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import { eventually } from '../support/eventually.ts'
import { Kubectl } from '../support/kubectl.ts'
import { deployment } from '../support/kubectl-operations.ts'
import { Processes } from '../support/processes.ts'

/** The control plane that other tests use: its promises about restarts, tokens and its end. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const needs = (missing: string[]) => missing.length > 0 && `needs ${missing.join(', ')}`
const skipApi = needs(missingAssets(assets, 'api'))
const kubectl = existsSync(join(assets, 'kubectl')) ? [] : ['kubectl']
const skipAll = needs([...missingAssets(assets, 'all'), ...kubectl, ...(existsSync('/proc/self') ? [] : ['/proc'])])

t.test('an API server that restarts', { skip: skipApi, timeout: 120_000 }, async (t) => {
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin, server, folder } = controlPlane
  await admin.create('/api/v1/namespaces/default/configmaps', { metadata: { name: 'kept' } })

  await t.test('keeps its port and its data, with another certificate', async (t) => {
    const before = controlPlane.apiServerPid
    const certificate = await readFile(join(folder, 'serving.crt'), 'utf8')
    await controlPlane.restartApiServer({ certificates: 'rotate', abruptly: true })
    t.not(controlPlane.apiServerPid, before)
    t.equal(controlPlane.server, server)
    t.not(await readFile(join(folder, 'serving.crt'), 'utf8'), certificate)
    t.equal((await admin.get('/api/v1/namespaces/default/configmaps/kept')).metadata.name, 'kept')
  })

  await t.test('shows a new certificate without a restart', async (t) => {
    const before = controlPlane.apiServerPid
    await controlPlane.rotateServingCertificate()
    t.equal(controlPlane.apiServerPid, before)
  })

  await t.test('takes a service account token for as long as it lives', async (t) => {
    const account = await createServiceAccount(admin, { namespace: 'default', name: 'short' })
    const ca = await readFile(controlPlane.caFile, 'utf8')
    const statusFor = async (token: string) => {
      const client = new ApiClient({ server, ca, token })
      const { status } = await client.request('/api/v1/namespaces')
      client.close()
      return status
    }
    t.equal(await statusFor(controlPlane.signToken({ account, lifeMs: 20_000 })), 200)
    t.equal(await statusFor(controlPlane.signToken({ account, lifeMs: -1_000 })), 401)
    const stranger = { ...account, uid: '00000000-0000-4000-8000-000000000000' }
    t.equal(await statusFor(controlPlane.signToken({ account: stranger, lifeMs: 20_000 })), 401)
  })

  await t.test('leaves no folder', async (t) => {
    await controlPlane.stop()
    t.notOk(existsSync(folder))
    await controlPlane.stop() // may be called twice
  })
})

t.test('a control plane whose parent is killed', { skip: skipAll, timeout: 120_000 }, async (t) => {
  const processes = await Processes.start(t)
  const parent = await processes.spawn({
    command: process.execPath,
    args: [join(import.meta.dirname, '../support/control-plane/hold.ts')],
    environment: { KUBEBUILDER_ASSETS: assets },
  })
  const [, kubeconfig = ''] = await parent.says(/kubeconfig (.*)\n/, { timeoutMs: 90_000 })
  const folder = dirname(kubeconfig)
  const cluster = new Kubectl({ processes, assets }, { kubeconfig, namespace: 'default' })
  await cluster.ok(['apply', '-f', '-'], { stdin: deployment(1) })
  await cluster.ok(['rollout', 'status', 'deployment/web'])
  const exec = await cluster.start(['exec', 'deployment/web', '--', 'sh', '-c', 'echo running; sleep 600'])
  await exec.says(/running/)
  t.ok((await processesIn(folder)).length >= 6, 'five programs, and the command of exec')
  parent.signal('SIGKILL')
  await eventually(async () => {
    const left = await processesIn(folder)
    if (left.length > 0 || existsSync(folder)) throw new Error(`left: ${left.join(', ') || folder}`)
  })
  t.pass('no process and no file is left')
})

t.test('a control plane without its programs', async (t) => {
  const controlPlane = new ControlPlane({ assets: '/nonexistent', parts: 'api' })
  t.same(controlPlane.missing(), ['etcd', 'kube-apiserver'])
  await t.rejects(controlPlane.start(), { message: '/nonexistent lacks etcd, kube-apiserver' })
})

/** Commands of the processes that run in `folder` or below. */
async function processesIn(folder: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const environments = await Promise.all(
    ids.map(async (id) => {
      const environment = await readFile(`/proc/${id}/environ`, 'utf8').catch(() => '') // ended, or another user's
      const command = await readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')
      return { environment, command: command.replaceAll('\0', ' ') }
    }),
  )
  return environments.filter(({ environment }) => environment.includes(`HOME=${folder}`)).map(({ command }) => command)
}
