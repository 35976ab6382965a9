import { programBeside } from '../lib/worker-host.ts'
import type { ModuleSchema, ModuleSchemas } from './agent-config/module-schema.ts'
import { gitopsBlock } from './modules/gitops/schema.ts'
import { viewsFile } from './modules/views/schema.ts'

/** Parts of an agent's folder that modules read: each such feature is a line here. */
const list: readonly ModuleSchema[] = [{ block: gitopsBlock }, { file: viewsFile }]

export const moduleSchemas: ModuleSchemas = {
  list,
  program: programBeside(import.meta.url, 'parsing-thread-program'),
}
