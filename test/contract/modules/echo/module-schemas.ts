import type { BlockSchema, ModuleSchemas } from '../../../../src/kas/agent-config/module-schema.ts'
import { moduleSchemas } from '../../../../src/kas/module-schemas.ts'
import { echoSchema } from './schema.ts'

export const echoBlock: BlockSchema<typeof echoSchema> = { key: 'echo', schema: echoSchema, maxBytes: 16 * 1024 }

/** Schemas of kas' own modules and of this one. */
export const echoSchemas: ModuleSchemas = {
  list: [{ block: echoBlock }, ...moduleSchemas.list],
  program: new URL('./parsing-thread-program.ts', import.meta.url),
}
