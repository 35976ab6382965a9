import type { Parts } from '../../../dev/control-plane/assets.ts'
import type { Findings, Stage } from '../scene.ts'
import { type ViewsPart, viewsParts } from '../soak-options.ts'
import { viewsUnderFaults } from './faults.ts'
import { recordsAndFaults, recordsFlags } from './records.ts'
import { viewsAndRights } from './rights.ts'
import { healthOfRollouts } from './rollouts.ts'
import { ViewsGround } from './views-ground.ts'

export interface ViewsSceneOptions {
  /** each fault */
  readonly times: number
  readonly views: number
  readonly pods: number
  /** of kas health */
  readonly runs: number
  /** without it: all of them */
  readonly part?: ViewsPart
}

interface Part {
  readonly parts: Parts
  /** of kube-apiserver */
  readonly flags?: readonly string[]
  run(ground: ViewsGround, stage: Pick<Stage, 'say' | 'signal'>, options: ViewsSceneOptions): Promise<Findings>
}

const parts: Readonly<Record<ViewsPart, Part>> = {
  faults: { parts: 'api', run: viewsUnderFaults },
  rights: { parts: 'api', run: viewsAndRights },
  records: { parts: 'all', flags: recordsFlags, run: recordsAndFaults },
  rollouts: { parts: 'all', run: healthOfRollouts },
}

/**
 * What runs in a cluster, as the CLI follows it through three replicas and two pods of agentk (doc/views.md).
 *
 * @param assets - what KUBEBUILDER_ASSETS names
 */
export async function viewsScene(
  stage: Pick<Stage, 'say' | 'signal'>,
  { assets }: { assets: string },
  options: ViewsSceneOptions,
): Promise<Findings> {
  const [figures, failures]: [string[], string[]] = [[], []]
  for (const name of options.part ? [options.part] : viewsParts) {
    const { parts: programs, flags, run } = parts[name]
    stage.say(`${name}: a cluster, three replicas of kas and two pods of agentk start`)
    const ground = await ViewsGround.start({ assets, parts: programs, ...(flags && { flags }) }, stage.signal)
    try {
      const found = await run(ground, stage, options)
      const verdict = found.failures.length === 0 ? 'ok' : 'not ok'
      figures.push(...found.figures.map((figure) => `${figure}: ${verdict}`))
      failures.push(...found.failures.map((failure) => `${name}: ${failure}`))
    } finally {
      await ground.stop()
    }
  }
  return { figures, failures }
}
