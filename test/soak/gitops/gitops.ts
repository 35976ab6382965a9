import type { Findings, Stage } from '../scene.ts'
import { type GitopsPart, gitopsParts } from '../soak-options.ts'
import { lostAtEachCall } from './calls.ts'
import { pushesUnderFaults } from './faults.ts'
import { frozenInRounds } from './frozen.ts'
import { GitopsGround } from './gitops-ground.ts'
import { pushesToldByHooks } from './hooks.ts'
import { killsDuringPushes } from './kills.ts'
import { statusUnderFaults } from './lies.ts'
import { pollsOfSecondProject } from './polls.ts'

export interface GitopsSceneOptions {
  readonly pushes: number
  /** kills of replicas, during the pushes */
  readonly kills: number
  /** freezes of the leading pod */
  readonly freezes: number
  /** minutes of faults */
  readonly minutes: number
  /** pushes that polls alone find */
  readonly polls: number
  /** pushes that hooks announce */
  readonly hooks: number
  readonly seed: number
  /** default: all parts */
  readonly part?: GitopsPart
}

/**
 * Applies commits to the cluster, through three replicas and two pods of agentk (doc/guide/gitops.md).
 *
 * @param assets - value of KUBEBUILDER_ASSETS
 */
export async function gitopsScene(
  stage: Pick<Stage, 'say' | 'signal'>,
  { assets }: { assets: string },
  options: GitopsSceneOptions,
): Promise<Findings> {
  const [figures, failures]: [string[], string[]] = [[], []]
  const data: Record<string, unknown> = {}
  for (const part of options.part ? [options.part] : gitopsParts) {
    const found = await (part === 'calls' ? lostAtEachCall(stage) : onGround(part, stage, { assets }, options))
    figures.push(...found.figures)
    failures.push(...found.failures.map((failure) => `${part}: ${failure}`))
    Object.assign(data, found.data)
  }
  return { figures, failures, data }
}

async function onGround(
  part: Exclude<GitopsPart, 'calls'>,
  stage: Pick<Stage, 'say' | 'signal'>,
  { assets }: { assets: string },
  options: GitopsSceneOptions,
): Promise<Findings> {
  stage.say(`${part}: an API server, three replicas of kas and two pods of agentk start`)
  const ground = await GitopsGround.start({ assets, seed: options.seed, hasHooks: part === 'hooks' }, stage.signal)
  try {
    if (part === 'kills') return await killsDuringPushes(ground, stage, options)
    if (part === 'polls') return await pollsOfSecondProject(ground, stage, options)
    if (part === 'hooks') return await pushesToldByHooks(ground, stage, options)
    if (part === 'lies') return await statusUnderFaults(ground, stage, options)
    if (part === 'frozen') return await frozenInRounds(ground, stage, options)
    return await pushesUnderFaults(ground, stage, { assets, minutes: options.minutes })
  } finally {
    await ground.stop()
  }
}
