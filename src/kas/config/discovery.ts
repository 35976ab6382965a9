import * as z from 'zod'
import { blockSchema } from '../../lib/config.ts'
import { hostPortForms, isHostName, parseHostPort } from '../../lib/host-port.ts'

const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/

/** What discovery takes, each with the words of an error text. */
const serviceForms = 'the name of a Service'
const namespaceForms = 'the name of a namespace'
export const dnsForms = 'a host name or host:port'
export const maxServices = 8
export const maxMembers = 100
export { hostPortForms as memberForms }

export const isLabel = (text: string): boolean => label.test(text)
export const isDnsTarget = (text: string): boolean => isHostName(text) || parseHostPort(text) !== undefined
export const isMember = (text: string): boolean => parseHostPort(text) !== undefined

const services = `${serviceForms}, or a list of at most ${maxServices}`
const areServices = (value: string | readonly string[]): boolean => {
  const names = [value].flat()
  return names.length > 0 && names.length <= maxServices && names.every(isLabel)
}

/**
 * The block `cluster.discovery`: who may be the other replicas.
 *
 * @see doc/discovery.md, doc/configuration.md "For more than one replica"
 */
export const discoverySchema = blockSchema({
  kubernetes: z
    .object(
      {
        /** one or several, all in `namespace` */
        service: z
          .union([z.string(), z.array(z.string())], { error: services })
          .refine(areServices, { error: services }),
        namespace: z.string({ error: namespaceForms }).refine(isLabel, { error: namespaceForms }).optional(),
      },
      { error: 'a block of keys' },
    )
    .optional(),
  dns: z.string({ error: dnsForms }).refine(isDnsTarget, { error: dnsForms }).optional(),
  static: z
    .array(z.string({ error: hostPortForms }).refine(isMember, { error: hostPortForms }), { error: 'a list' })
    .max(maxMembers, { error: `at most ${maxMembers} members` })
    .prefault([]),
})
