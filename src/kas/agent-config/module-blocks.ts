import type * as z from 'zod'
import { type ConfigWarning, checkTree } from '../../lib/config.ts'
import { configurationInvalid } from './agent-config-file.ts'
import { agentConfigurationSchema } from './agent-config-schema.ts'

/** A module's own block of an agent's file. */
export interface ModuleBlock {
  /** without the keys that its schema does not know: what agentk is sent */
  readonly json: string
  /** as its schema reads it */
  readonly value: unknown
}

/** Which blocks of agents' files modules own, and what these may hold. */
export class ModuleBlocks {
  readonly #schemas = new Map<string, z.ZodType>()

  add(key: string, schema: z.ZodType): void {
    const isTaken = this.#schemas.has(key) || Object.hasOwn(agentConfigurationSchema.shape, key)
    if (isTaken) throw new Error(`the block ${key} has an owner`)
    this.#schemas.set(key, schema)
  }

  get keys(): string[] {
    return [...this.#schemas.keys()]
  }

  /**
   * @param found - blocks as they stand in the file, as JSON
   * @throws KasError CONFIGURATION_INVALID with the problems of the first block that has any
   */
  check(
    file: string,
    found: ReadonlyMap<string, string>,
  ): { blocks: ReadonlyMap<string, ModuleBlock>; warnings: ConfigWarning[] } {
    const blocks = new Map<string, ModuleBlock>()
    const warnings: ConfigWarning[] = []
    for (const [key, schema] of this.#schemas) {
      const json = found.get(key)
      if (json === undefined) continue
      const tree: unknown = JSON.parse(json)
      try {
        const checked = checkTree(file, key, tree, schema)
        warnings.push(...checked.warnings)
        blocks.set(key, { json: JSON.stringify(tree), value: checked.value })
      } catch (error) {
        throw configurationInvalid(error)
      }
    }
    return { blocks, warnings }
  }
}
