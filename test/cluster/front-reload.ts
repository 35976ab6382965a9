import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { httpsGet } from '../support/https-get.ts'
import type { KubectlSide } from '../support/kubectl-side.ts'
import { RepeatedCalls } from '../support/repeated-calls.ts'
import { bearerFor, kubernetesPath } from './front-client.ts'
import type { RunningFront } from './front-program.ts'
import type { FrontedReplicas } from './fronted-replicas.ts'
import { runningExec, runningForward, runningLogs, runningWatch } from './running-streams.ts'

/** State that a reload of a front must not change. */

export interface Reloaded {
  readonly front: RunningFront
  readonly replicas: FrontedReplicas
  /** agents behind the front, each with a Deployment `web` that runs */
  readonly agents: readonly number[]
  /** kubectl for each agent, in the same order */
  readonly sides: readonly KubectlSide[]
}

/** calls of each kind that must be answered after the reload before the test goes on */
const callsAfter = 10

/** Starts streams and calls before the reload, and checks that they go on after it. */
export async function outlivesReload(t: Test, reloaded: Reloaded): Promise<void> {
  const { front, replicas, agents, sides } = reloaded
  const running = await Promise.all(
    sides.flatMap((side, i) => [
      runningExec(side, i === 0),
      runningWatch(side),
      i === 0 ? runningForward(side) : runningLogs(side),
    ]),
  )
  const calls = agents.map((agent, i) => {
    const url = `${front.url}${kubernetesPath}/api/v1/namespaces/${sides[i]?.kubectl.namespace}/configmaps`
    return new RepeatedCalls({ url, ca: replicas.ca, authorization: bearerFor(agent) })
  })
  const before = await Promise.all(agents.map((agent) => replicas.connections(agent)))
  for (const each of calls) each.start(t)
  await Promise.all(calls.map((each) => each.more(callsAfter)))
  await reload(reloaded)
  await Promise.all(calls.map((each) => each.more(callsAfter)))
  for (const { what, goesOn } of running) await t.resolves(goesOn(), what)
  const ended = await Promise.all(calls.map((each) => each.stop()))
  for (const [i, { summary, failures, made }] of ended.entries()) {
    t.same(failures, [], `no call through agent ${agents[i]} fails`)
    t.comment(summary)
    const { kubectl } = sides[i] as KubectlSide
    const there = (await kubectl.ok(['get', 'configmaps', '-o', 'name', '--selector=made=by-calls'])).trim()
    t.same(there.split('\n').sort(), made.map((name) => `configmap/${name}`).sort(), 'what was made is there')
  }
  for (const [i, agent] of agents.entries()) {
    await replicas.holders(agent, 2)
    const after = await replicas.connections(agent)
    const same = after.filter((connection) => before[i]?.includes(connection)).length
    t.comment(`agent ${agent}: ${same} of ${before[i]?.length} connections are those from before the reload`)
  }
}

/** Reloads the front; resolves when new requests get the new configuration. */
async function reload({ front, replicas }: Reloaded): Promise<void> {
  const { file, signal, changed } = (await isNginx(front)) ? ofNginx : ofHaproxy
  const path = join(front.folder, file)
  await writeFile(path, changed(await readFile(path, 'utf8')))
  process.kill(front.program.pid as number, signal)
  await eventually(async () => {
    const { status } = await httpsGet(`${front.url}/reloaded`, { ca: replicas.ca })
    assert.equal(status, 204, 'not reloaded')
  })
}

const ofNginx = {
  file: 'kas-holders.conf',
  signal: 'SIGHUP',
  changed: (text: string) => `${text}\nlocation = /reloaded { return 204; }\n`,
} as const
const ofHaproxy = {
  file: 'haproxy.cfg',
  signal: 'SIGUSR2',
  changed: (text: string) =>
    text.replace('    http-request return status 404', '    http-request return status 204 if { path /reloaded }\n$&'),
} as const

async function isNginx({ folder }: RunningFront): Promise<boolean> {
  return folder.endsWith('nginx')
}
