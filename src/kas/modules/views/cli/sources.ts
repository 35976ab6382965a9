import * as z from 'zod'
import type { Scope } from '../../../../proto/views-json.ts'
import { askKas } from '../../../command/ask-kas.ts'
import { readAnswer } from '../../../command/bad-answer.ts'
import type { Endpoint } from '../../../command/endpoint.ts'

const states = z.object({ sources: z.array(z.object({ source: z.string(), name: z.string().optional() })) })

/**
 * A scope in which a GitOps source that is named by its name is named by its id, which its objects bear. Applications of
 * others have their namespace before the name.
 *
 * @returns as it is, where there is no such source, or kas says nothing of sources
 */
export async function withSource(scope: Scope | undefined, endpoint: Endpoint): Promise<Scope | undefined> {
  const name = scope?.application
  if (name === undefined || name.includes('/')) return scope
  const ids = await askSources(endpoint).then(
    (sources) => sources.filter((one) => one.name === name).map(({ source }) => source),
    () => [], // the caller may not ask for sources: then the name is taken as it stands
  )
  const [id, ...others] = ids
  if (others.length > 0)
    throw new Error(`several GitOps sources are called ${name}: name one by its id, ${ids.join(', ')}`)
  return id === undefined ? scope : { ...scope, application: id }
}

async function askSources(endpoint: Endpoint) {
  const { sources } = readAnswer(states, await askKas(endpoint, { method: 'GET', path: '/gitops/state' }))
  return sources
}
