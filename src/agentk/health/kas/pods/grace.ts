import { type Container, type PodContext, runningSince } from './container.ts'

/** When a container's own time began: not before init containers had ended, nor before it runs. ms since 1970 */
export function fromOf(context: PodContext, container: Container): number | undefined {
  const initialized = container.place === 'main' ? context.initialized : undefined
  const times = [context.since, initialized, runningSince(container, context.now)].filter((time) => time !== undefined)
  return times.length > 0 ? Math.max(...times) : undefined
}
