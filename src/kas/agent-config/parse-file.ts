import type * as z from 'zod'
import { type LoadedConfig, parseConfig } from '../../lib/config.ts'
import { KasError } from '../../lib/errors.ts'
import { decisiveKeys } from './agent-config-schema.ts'

/** Three times what 2,000 entries need: what is over would be gone through for long, and posted to GitLab. */
const maxNodes = 40_000

/**
 * Reads a file of an agent's folder.
 *
 * @param file - names it in errors
 * @param refused - a key that the schema does not know is a problem, no warning; why, of those whose name is known
 * @throws KasError CONFIGURATION_INVALID with every problem
 */
export function parseFile<S extends z.ZodObject>(
  file: string,
  bytes: Uint8Array,
  schema: S,
  refused?: Readonly<Record<string, string>>,
): LoadedConfig<z.output<S>> {
  const text = textOf(file, bytes)
  try {
    return parseConfig(file, text, schema, {
      limits: { maxNodes },
      ...(refused ? { refused } : { decisive: decisiveKeys }),
    })
  } catch (error) {
    throw configurationInvalid(error)
  }
}

function textOf(file: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw new KasError({ code: 'CONFIGURATION_INVALID', detail: `${file}: not UTF-8` }, { cause: error })
  }
}

/** Of what `lib/config.ts` says about a file. */
function configurationInvalid(cause: unknown): KasError {
  const detail = KasError.from(cause).message.replaceAll('\n', '; ')
  return new KasError({ code: 'CONFIGURATION_INVALID', detail }, { cause })
}
