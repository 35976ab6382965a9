import type { ChildProcess } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Authority } from '../../dev/certificates.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import type { Programs as Run } from '../../dev/start/local-programs.ts'
import type { Target } from '../hop/load.ts'
import { startOurs } from '../hop/ours.ts'
import { askProgram, hear } from '../support/ask-program.ts'
import type { Programs } from '../support/programs.ts'
import type { DoubleQuestion, DoubleSettings, ViewersQuestion, ViewersSettings } from './questions.ts'

const own = (program: string) => join(import.meta.dirname, `${program}.ts`)
const probe = `--import=${join(import.meta.dirname, 'agentk-probe.mjs')}`

/** The API double, two replicas of kas, agentk and viewers. No kind is listed before the double is released. */
export interface Ground {
  readonly double: ChildProcess
  readonly doublePid: number
  readonly kubeconfig: string
  readonly kasPid: number
  readonly agentk: ChildProcess
  readonly viewers: ChildProcess
  readonly target: (path: string) => Target
}

export async function startGround(
  programs: Programs,
  { folder, objects, run }: { folder: string; objects: number; run: Run },
): Promise<Ground> {
  const authority = await Authority.create('kas bench views')
  const { certificate, key } = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const settings: DoubleSettings = { objects, key, certificate }
  const double = programs.spawn(own('api-double'), [JSON.stringify(settings)])
  const server = `https://127.0.0.1:${await hear<number>(double)}`
  const kubeconfig = join(folder, 'kubeconfig')
  const text = kubeconfigText({ server, authority: authority.certificate, user: { token: 'bench' } })
  writeFileSync(kubeconfig, text, { mode: 0o600 })
  const files = { '.gitlab/agents/prod/views.yaml': 'follow: { kinds: [] }\n' }
  const ours = await startOurs(programs, join(folder, 'kas'), kubeconfig, undefined, {
    files,
    run,
    agentkFlags: [probe],
  })
  const { holder, agentk } = ours
  const users = [holder.target('/views', 0), holder.target('/views', 1)] as const
  const [{ origin, path }] = users
  const looking: ViewersSettings = {
    url: origin.replace('http', 'ws') + path,
    headers: users.map(({ headers }) => headers),
  }
  const viewers = programs.spawn(own('viewers'), [JSON.stringify(looking)])
  await hear(viewers)
  const { target, pid: kasPid } = holder
  return { double, doublePid: double.pid as number, kubeconfig, kasPid, agentk, viewers, target }
}

export const askDouble = <Answer>({ double }: Ground, question: DoubleQuestion) => askProgram<Answer>(double, question)
export const askViewers = <Answer>({ viewers }: Ground, question: ViewersQuestion) =>
  askProgram<Answer>(viewers, question)
