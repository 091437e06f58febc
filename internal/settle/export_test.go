package settle

const MaxClosedTogether = maxClosedTogether
