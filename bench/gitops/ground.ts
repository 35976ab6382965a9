import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parse } from 'yaml'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import type { Programs as Run } from '../../dev/start/local-programs.ts'
import { GitPushes } from '../../test/support/git-pushes.ts'
import type { Target } from '../hop/load.ts'
import { agentkNamespace, startOurs } from '../hop/ours.ts'
import type { Programs } from '../support/programs.ts'
import { AuditLog, auditPolicy } from './audit-log.ts'

const gitSync = resolve(import.meta.dirname, '../../deploy/kubernetes/agentk-gitops/0-gitsync.yaml')
const account = 'agentk'
export const agentkUser = `system:serviceaccount:${agentkNamespace}:${account}`
const tokenLifeMs = 24 * 3_600_000
/** interval of checks of another process. ms */
const askAgainMs = 50

/** A real API server that records its requests, two replicas of kas, one agentk, and its project. */
export interface Ground {
  readonly controlPlane: ControlPlane
  readonly log: AuditLog
  readonly pushes: GitPushes
  readonly kasPid: number
  /** current process */
  readonly agentk: ChildProcess
  /** its id */
  readonly agentkPid: number
  /** @param path - of a request through the replica that has agentk */
  target(path: string): Target
  /** sends a push event to the replica that does not have agentk, as GitLab does */
  tell(): Promise<void>
  /** kills agentk, and starts it again */
  restartAgentk(): Promise<void>
  /**
   * Resolves when this commit is in the cluster, by the report of the current leader.
   *
   * @param sources - number of sources; default: 1
   */
  synced(commit: string, signal: AbortSignal, sources?: number): Promise<void>
}

export interface GroundOptions {
  readonly assets: string
  /** is removed with the bench; it has no ground yet */
  readonly folder: string
  readonly run: Run
  /** more flags of Node, for agentk */
  readonly agentkFlags?: readonly string[]
  /** user whose requests are not recorded */
  readonly unrecorded?: string
}

export async function startGround(
  programs: Programs,
  { assets, folder, run, agentkFlags = [], unrecorded }: GroundOptions,
  onStop: (stop: () => Promise<unknown>) => void,
): Promise<Ground> {
  const policy = join(folder, 'audit-policy.json')
  writeFileSync(policy, JSON.stringify(auditPolicy(unrecorded)))
  const auditLogFile = join(folder, 'audit.log')
  const flags = [`--audit-policy-file=${policy}`]
  const controlPlane = new ControlPlane({ assets, parts: 'api', auditLogFile, flags })
  onStop(() => controlPlane.stop())
  await controlPlane.start()
  const ours = await startOurs(
    programs,
    join(folder, 'kas'),
    await agentkAccount(controlPlane, folder),
    { scheme: 'grpc' },
    { run, agentkFlags },
  )
  const { holder, other, project, startAgentk } = ours
  const pushes = new GitPushes({ ...project, project })
  onStop(async () => pushes.close())
  let agentk: ChildProcess = ours.agentk
  return {
    controlPlane,
    log: new AuditLog(auditLogFile),
    pushes,
    kasPid: holder.pid,
    get agentk() {
      return agentk
    },
    get agentkPid() {
      return agentk.pid as number
    },
    target: (path) => holder.target(path),
    tell: () => pushes.tell(other.rails),
    restartAgentk: async () => {
      const ended = once(agentk, 'exit')
      agentk.kill('SIGKILL')
      await ended
      agentk = startAgentk()
    },
    synced: async (commit, signal, count = 1) => {
      const { origin, path, headers } = holder.target('/gitops/state')
      for (;;) {
        const answer = await fetch(origin + path, { headers, signal })
        const { sources = [] } = answer.ok ? ((await answer.json()) as { sources?: State[] }) : {}
        const isSynced = (state: State) => state.phase === 'SYNCED' && state.commit === commit && !state.stale
        if (sources.filter(isSynced).length === count) return
        const refused = sources.find(({ phase }) => phase === 'REFUSED')
        if (refused) throw new Error(`the commit was refused: ${refused.problem}`)
        await sleep(askAgainMs, undefined, { signal })
      }
    },
  }
}

interface State {
  readonly commit: string
  readonly phase: string
  readonly problem: string
  readonly stale: boolean
}

/** @returns path of a kubeconfig of agentk's account, which has all rights */
async function agentkAccount(controlPlane: ControlPlane, folder: string): Promise<string> {
  const { admin, server, caFile } = controlPlane
  await admin.create('/api/v1/namespaces', { metadata: { name: agentkNamespace } })
  const definition = parse(readFileSync(gitSync, 'utf8'))
  await admin.create('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition)
  const created = await createServiceAccount(admin, { namespace: agentkNamespace, name: account })
  const user = { token: controlPlane.signToken({ account: created, lifeMs: tokenLifeMs }) }
  const path = join(folder, 'agentk.kubeconfig')
  writeFileSync(path, kubeconfigText({ server, caFile, user }), { mode: 0o600 })
  return path
}
