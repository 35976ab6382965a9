import type { Findings, Stage } from '../scene.ts'
import { type ViewsPart, viewsParts } from '../soak-options.ts'
import { viewsUnderFaults } from './faults.ts'
import { recordsAndFaults, recordsFlags } from './records.ts'
import { viewsAndRights } from './rights.ts'
import { healthOfRollouts } from './rollouts.ts'
import { ViewsGround, type ViewsGroundOptions } from './views-ground.ts'

export interface ViewsSceneOptions {
  /** plays of each fault */
  readonly times: number
  readonly views: number
  readonly pods: number
  /** runs of kas health */
  readonly runs: number
  /** default: all parts */
  readonly part?: ViewsPart
}

/** A part of the scene on a ground of its own. */
interface Run extends Pick<ViewsGroundOptions, 'parts' | 'flags' | 'directory'> {
  play(ground: ViewsGround, stage: Pick<Stage, 'say' | 'signal'>, options: ViewsSceneOptions): Promise<Findings>
}

const runs: Readonly<Record<ViewsPart, readonly Run[]>> = {
  faults: [{ parts: 'api', play: viewsUnderFaults }],
  rights: [
    { parts: 'api', directory: 'gitlab', play: (...on) => viewsAndRights(on[0], on[1], { inCluster: true }) },
    { parts: 'api', directory: 'file', play: (...on) => viewsAndRights(on[0], on[1], { inCluster: false }) },
  ],
  records: [{ parts: 'all', flags: recordsFlags, play: recordsAndFaults }],
  rollouts: [{ parts: 'all', play: healthOfRollouts }],
}

/**
 * Follows a cluster as the CLI does, through three replicas and two pods of agentk (doc/guide/views.md).
 *
 * @param assets - value of KUBEBUILDER_ASSETS
 */
export async function viewsScene(
  stage: Pick<Stage, 'say' | 'signal'>,
  { assets }: { assets: string },
  options: ViewsSceneOptions,
): Promise<Findings> {
  const [figures, failures]: [string[], string[]] = [[], []]
  const data: Record<string, unknown> = {}
  for (const name of options.part ? [options.part] : viewsParts) {
    for (const { play, ...run } of runs[name]) {
      stage.say(`${name}: a cluster, three replicas of kas and two pods of agentk start`)
      const ground = await ViewsGround.start({ assets, ...run }, stage.signal)
      try {
        const found = await play(ground, stage, options)
        const verdict = found.failures.length === 0 ? 'ok' : 'not ok'
        figures.push(...found.figures.map((figure) => `${figure}: ${verdict}`))
        failures.push(...found.failures.map((failure) => `${name}: ${failure}`))
        Object.assign(data, found.data)
      } finally {
        await ground.stop()
      }
    }
  }
  return { figures, failures, data }
}
