import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { files } from '../../dev/start/settings.ts'
import { RollingGround, type StartAgents } from '../soak/rolling/rolling-ground.ts'
import { rolling } from '../soak/rolling.ts'
import { AgentkGo, withoutGo } from '../support/agentk-go.ts'
import { patience } from '../support/slowness.ts'

/** Replicas of kas restart one after the other under two pods of an agent in Go, which gets no notice. */

const timeoutMs = 120_000
const graces = { listenMs: 2500, shutdownMs: 1500 }

interface Kubeconfig {
  readonly clusters: readonly { readonly cluster: { readonly server: string } }[]
  readonly users: readonly { readonly user: { readonly token: string } }[]
}

function stockPods(t: Test, pods: AgentkGo[]): StartAgents {
  return async ({ folder, kubeconfig, kasPort }) => {
    const { clusters, users } = parse(await readFile(kubeconfig, 'utf8')) as Kubeconfig
    const token = (await readFile(join(folder, files.agentToken), 'utf8')).trim()
    const flags = [
      `--ca-cert-file=${join(folder, files.authority)}`,
      `--api-server=${clusters[0]?.cluster.server}`,
      `--api-ca=${join(folder, files.authority)}`,
      `--api-token=${users[0]?.user.token}`,
    ]
    const kasAddress = `wss://127.0.0.1:${kasPort}/-/kubernetes-agent/`
    for (const name of ['one', 'two']) {
      pods.push(await AgentkGo.start(t, { kasAddress, token, flags: [...flags, `--pod-name=${name}`] }))
    }
    return { stop: () => Promise.all(pods.map((pod) => pod.stop())) }
  }
}

t.test(
  'no call fails, nothing is cut early, idle tunnels end with OK',
  { skip: withoutGo, timeout: timeoutMs },
  async (t) => {
    const signal = AbortSignal.timeout(patience(timeoutMs))
    const pods: AgentkGo[] = []
    const ground = await RollingGround.start(
      {
        assets: undefined,
        graces: { listen: `${graces.listenMs}ms`, shutdown: `${graces.shutdownMs}ms` },
        startAgents: stockPods(t, pods),
      },
      signal,
    )
    t.teardown(() => ground.stop())
    const say = (text: string) => t.comment(text)
    const load = { calls: 20, watches: 6, execs: 3, restarts: 2 }
    const { figures, failures } = await rolling({ ground, say, signal }, { ...load, graces, calmMs: 500 })
    for (const figure of figures) t.comment(figure)
    t.same(failures, [])
    for (const pod of pods) {
      const idle = pod.all('tunnel-closed').filter(({ method }) => method === '')
      t.same(
        idle.filter(({ code }) => code !== 'OK'),
        [],
        `${idle.length} idle tunnels ended, with OK: the agent opens the next at once`,
      )
    }
  },
)
