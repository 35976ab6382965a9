import * as z from 'zod'
import { urlSchema } from '../../lib/config.ts'

/**
 * Keys of the block `cluster` that have one text; `KAS_CLUSTER_<KEY>` sets each of them too (doc/reference/configuration.md "For
 * more than one replica").
 */
export const clusterTexts = {
  previous_authentication_secret_file: z.string().optional(),
  agent_address: urlSchema('ws', 'wss', 'grpc', 'grpcs').optional(),
  advertised_version: z
    .string()
    .regex(/^v?\d+\.\d+\.\d+/, { error: 'a GitLab version such as "v18.5.0"' })
    .optional(),
}

const nameForm = 'a name of letters, digits, ".", "_" and "-", which begins with a letter or a digit'

/** `cluster.name`, which other replicas check by the same rule */
export const clusterName = z
  .string({ error: nameForm })
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/, { error: nameForm })
  .optional()

export type ClusterTexts = { readonly [Key in keyof typeof clusterTexts]?: string }

/** @param problems - receives their faults */
export function clusterTextsOf(get: (name: string) => string | undefined, problems: string[]): ClusterTexts {
  const texts = Object.entries(clusterTexts).flatMap(([key, schema]) => {
    const text = checked(`KAS_CLUSTER_${key.toUpperCase()}`, schema, { get, problems })
    return text === undefined ? [] : [[key, text]]
  })
  return Object.fromEntries(texts)
}

/** Returns `KAS_CLUSTER_NAME`, else `POD_NAME`. */
export function clusterNameOf(get: (name: string) => string | undefined, problems: string[]): string | undefined {
  const name = get('KAS_CLUSTER_NAME') === undefined ? 'POD_NAME' : 'KAS_CLUSTER_NAME'
  return checked(name, clusterName, { get, problems })
}

function checked(
  name: string,
  schema: z.ZodType<string | undefined>,
  { get, problems }: { get: (name: string) => string | undefined; problems: string[] },
): string | undefined {
  const text = get(name)
  const { error } = schema.safeParse(text)
  if (error) problems.push(`${name}: found ${JSON.stringify(text)}, allowed: ${error.issues[0]?.message}`)
  return text
}
