import type * as z from 'zod'
import { type LoadedConfig, parseConfig } from '../../lib/config.ts'
import { KasError } from '../../lib/errors.ts'
import { decisiveKeys } from './agent-config-schema.ts'

/** Bound of nodes, three times those of 2,000 entries: a larger file would take long, and be sent to GitLab. */
const maxNodes = 40_000

/**
 * Reads a file of an agent's folder.
 *
 * @param file - name for errors
 * @param refused - if set, a key that the schema does not know is a problem, not a warning; the values are reasons, by
 *   key
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

/** Error for a fault that `lib/config.ts` found in a file. */
function configurationInvalid(cause: unknown): KasError {
  const detail = KasError.from(cause).message.replaceAll('\n', '; ')
  return new KasError({ code: 'CONFIGURATION_INVALID', detail }, { cause })
}
