import { readFile, writeFile } from 'node:fs/promises'
import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { eventually } from '../support/eventually.ts'
import { httpsGet } from '../support/https-get.ts'
import type { Identity } from '../support/kubectl-side.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { agentConfiguration, bearerOf, directoryFile } from '../support/stack-directory.ts'

/** A push to the agent's project and an edit of the directory file apply to a running kas, within seconds. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const configurationFile = '.gitlab/agents/prod/config.yaml'
/** limit of "within seconds" on a busy machine */
const soon = { timeoutMs: 15_000 }

t.test('changes while kas runs', { skip, timeout: 200_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig })
  await stack.startAgentk()
  await stack.connected()
  const ca = await readFile(stack.caFile, 'utf8')
  const statusOf = async (identity: Identity) => {
    const { status } = await httpsGet(`${stack.kubernetesUrl}/version`, { ca, token: bearerOf(identity) })
    return status
  }
  const becomes = (identity: Identity, expected: number) =>
    eventually(async () => {
      const status = await statusOf(identity)
      if (status !== expected) throw new Error(`${identity}: ${status}, not ${expected}`)
    }, soon)

  await t.test('a push takes access away and gives it back', async (t) => {
    t.equal(await statusOf('ci_job'), 200)
    const { ci_access, user_access } = agentConfiguration
    const [clusters, , robot] = ci_access.projects
    const less = { ci_access: { projects: [clusters, robot] }, user_access }
    await stack.repository.push(configurationFile, JSON.stringify(less))
    await t.resolves(becomes('ci_job', 403))
    t.equal(await statusOf('impersonate'), 200, 'others keep theirs')
    await stack.repository.push(configurationFile, JSON.stringify(agentConfiguration))
    await t.resolves(becomes('ci_job', 200))
  })

  await t.test('an edit of the directory file revokes a token', async (t) => {
    t.equal(await statusOf('user'), 200)
    const directory = directoryFile(stack.repository.path)
    await stack.writeDirectory({ ...directory, users: directory.users.map((user) => ({ ...user, tokens: [] })) })
    await t.resolves(becomes('user', 401))
    t.equal(await statusOf('ci_job'), 200, 'others keep theirs')
    await stack.writeDirectory(directory)
    await t.resolves(becomes('user', 200))
  })

  await t.test('a directory file that does not parse keeps the last good one in force', async (t) => {
    const said = stack.kas.stderr.length
    await writeFile(stack.directoryFile, 'agents: [{')
    await eventually(() => {
      const line = stack.kas.stderr
        .slice(said)
        .split('\n')
        .find((one) => /"level":"(warn|error)"/.test(one))
      if (!line) throw new Error('kas says nothing')
      t.match(line, /directory/i)
      t.notMatch(line, /stack-(agent|job|token)/, 'no token is shown')
    }, soon)
    for (const identity of ['agent', 'ci_job', 'user', 'impersonate'] as const) t.equal(await statusOf(identity), 200)
    const directory = directoryFile(stack.repository.path)
    await stack.writeDirectory({ ...directory, ci_tokens: directory.ci_tokens.filter(({ job }) => job !== 902) })
    await t.resolves(becomes('impersonate', 401), 'the next good one applies')
    t.equal(await statusOf('agent'), 200)
  })
})
