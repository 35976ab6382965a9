import { once } from 'node:events'
import { request } from 'node:https'
import { hookHeaders } from '../support/git-hooks.ts'
import { patience } from '../support/slowness.ts'
import type { HostileGround } from './hostile-ground.ts'
import type { Stage } from './stage.ts'
import { newcomerProject } from './tenants.ts'

/** Limit of a Git server for an answer. */
const patienceMs = patience(10_000)
const body = '{"ref":"refs/heads/main"}'

export interface ServedHook {
  readonly tookMs: number
  /** reason of a failure; absent: the hook was accepted in time */
  readonly problem?: string
}

/**
 * Sends a push hook of a good tenant's Git server, on a connection of its own. Undefined: no project has a secret for
 * hooks.
 */
export async function hookServed(
  { stage, hookSecret }: Pick<HostileGround, 'stage' | 'hookSecret'>,
  way: Stage = stage,
): Promise<ServedHook | undefined> {
  if (!hookSecret) return undefined
  const began = performance.now()
  const took = () => performance.now() - began
  const sent = request(`https://127.0.0.1:${way.entry.kubernetes}/hooks/git/${newcomerProject}`, {
    method: 'POST',
    ca: way.ca,
    agent: false,
    headers: { ...hookHeaders.github(body, hookSecret), 'content-length': body.length },
    signal: AbortSignal.timeout(patienceMs),
  })
  sent.end(body)
  try {
    const [answer] = await once(sent, 'response')
    answer.resume()
    const { statusCode } = answer
    return { tookMs: took(), ...(statusCode === 202 ? {} : { problem: `a good hook: ${statusCode}` }) }
  } catch (error) {
    return { tookMs: took(), problem: `a good hook, after ${took().toFixed(0)} ms: ${(error as Error).message}` }
  } finally {
    sent.destroy()
  }
}
