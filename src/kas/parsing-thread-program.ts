import { answerJobs } from './agent-config/parsing-answer.ts'
import { moduleSchemas } from './module-schemas.ts'

answerJobs(moduleSchemas.list)
