import * as z from 'zod'
import type { Scope } from '../../../../proto/views-json.ts'
import { askKas, usualTimeoutMs } from '../../../command/ask-kas.ts'
import { readAnswer } from '../../../command/bad-answer.ts'
import type { Endpoint } from '../../../command/endpoint.ts'
import { Unreached } from '../../../command/reach/unreached.ts'

/** From one question to the next while kas is not reached, in ms. */
const againMs = 1000
/** least timeout of a question near the end of the time, in ms */
const leastTimeoutMs = 100

const states = z.object({
  sources: z.array(z.object({ source: z.string(), project: z.string().optional(), name: z.string().optional() })),
})
type NamedSource = z.output<typeof states>['sources'][number]

/**
 * Replaces the name of a GitOps source in a scope by its id, which its objects have as a mark. A source may be called as
 * `kas gitops status` prints it, or by its name in the configuration. A name with a slash may be another application's,
 * whose namespace comes first.
 *
 * @param waitMs - the longest that kas is asked while it does not answer
 * @returns the scope as it is, if there is no such source, or kas does not list sources
 * @throws Unreached: kas did not answer within the time
 */
export async function withSource(
  scope: Scope | undefined,
  endpoint: Endpoint,
  waitMs: number,
): Promise<Scope | undefined> {
  const name = scope?.application
  if (name === undefined) return scope
  const sources = await askSources(endpoint, waitMs)
  const ids = sources.filter((one) => isCalled(one, name)).map(({ source }) => source)
  const [id, ...others] = ids
  if (others.length > 0)
    throw new Error(`several GitOps sources are called ${name}: name one by its id, ${ids.join(', ')}`)
  return id === undefined ? scope : { ...scope, application: id }
}

/** True if the source has this name in its configuration, or in the output of `kas gitops status`. */
function isCalled({ source, project = '', name = '' }: NamedSource, wanted: string): boolean {
  const printed = project === '' ? source : name === '' ? project : `${project} (${name})`
  return printed === wanted || (name !== '' && name === wanted)
}

async function askSources(endpoint: Endpoint, waitMs: number) {
  const { clock, warn } = endpoint
  const until = clock.now() + waitMs
  for (;;) {
    const timeoutMs = Math.min(usualTimeoutMs, Math.max(leastTimeoutMs, until - clock.now()))
    try {
      return readAnswer(states, await askKas(endpoint, { method: 'GET', path: '/gitops/state', timeoutMs })).sources
    } catch (error) {
      if (!(error instanceof Unreached && error.isPassing)) return [] // no permission, or the view reports the reason
      if (until - clock.now() <= againMs) throw error.isReported ? timeOver(waitMs, error) : error
      if (!error.isReported) warn(error.message)
    }
    await new Promise<void>((resolve) => void clock.after(againMs, resolve))
  }
}

function timeOver(waitMs: number, cause: Unreached): Unreached {
  return new Unreached('silent', `kas did not answer within ${waitMs / 1000} s`, { cause, isReported: true })
}
